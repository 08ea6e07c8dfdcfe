"""The commands, one module each; the table is in ``hurray.cli.main``."""
