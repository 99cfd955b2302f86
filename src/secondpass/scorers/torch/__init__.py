"""Models on torch, and whether their files hold what a score needs."""
