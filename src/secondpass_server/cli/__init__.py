"""The subcommands that serve and pack."""
