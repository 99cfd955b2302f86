"""``python -m secondpass``: the command, where its script is not on the path."""

from secondpass.cli import main

if __name__ == "__main__":
    main()
