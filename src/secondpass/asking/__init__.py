"""Everything of a ranking pass that waits: scheduling, sending, caching, planning."""
