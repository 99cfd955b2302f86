"""What is sent to language models, and how their replies are read."""
