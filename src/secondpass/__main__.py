"""``python -m secondpass`` runs the command."""

from secondpass.cli import main

if __name__ == "__main__":
    main()
