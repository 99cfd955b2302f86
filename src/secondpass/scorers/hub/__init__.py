"""Models by name or folder: where they are, and what their JSON files say."""
