"""The subcommands: one module each, named in :mod:`secondpass.cli.app`."""
