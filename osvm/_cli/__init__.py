"""The subcommands of ``osvm`` that work on files, one module each."""
