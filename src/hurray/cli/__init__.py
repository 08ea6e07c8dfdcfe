"""The command line: ``hurray`` and ``python -m hurray``.  It needs the extra ``cli`` (typer, rich)."""
