"""The subcommands: one module each, registered in :mod:`secondpass.cli.app`."""
