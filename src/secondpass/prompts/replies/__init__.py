"""Reply formats: what a model is asked to reply, and how replies are read."""
