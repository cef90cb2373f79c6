"""The `rocketha` command, one file a subcommand, and the small asynchronous client it stands on."""
