"""What the adapters for frameworks share: parameters, checks, life cycle, scores, model objects."""
