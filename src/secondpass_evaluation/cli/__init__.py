"""The subcommands that search and measure."""
