"""The command table, and how a run ends: 0 well, 1 with an error or damage found, 2 for a wrong call.

To add a command, write its module in ``commands`` and its line in ``COMMANDS``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

import hurray
from hurray.cli._console import clean
from hurray.cli.commands.cat import cat
from hurray.cli.commands.convert import convert
from hurray.cli.commands.inspect import inspect
from hurray.cli.commands.ls import ls
from hurray.cli.commands.verify import verify
from hurray.errors import HurrayError

__all__ = ["COMMANDS", "app", "run"]

#: every command, in the order of the help text
COMMANDS: dict[str, Callable[..., None]] = {
    "ls": ls,
    "inspect": inspect,
    "cat": cat,
    "convert": convert,
    "verify": verify,
}
#: a slice may start with a minus sign, which is no option
_SETTINGS: dict[str, dict[str, Any]] = {"cat": {"ignore_unknown_options": True}}

#: what the library's messages advise, as options here
_ADVICE = {
    "kv={}": "--drop-metadata",
    "dequantize=True": "--dequantize",
    "densify=True": "--densify",
    "other='dequantize'": "--other dequantize",
    "other='skip'": "--other skip",
    "axis= or axes=": "--split-axis",
}

app = typer.Typer(
    name="hurray",
    help="Look into, check and convert files of tensors in the Hurray format.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _command in COMMANDS.items():
    app.command(_name, context_settings=_SETTINGS.get(_name))(_command)


def _show_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"hurray {hurray.__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Look into, check and convert files of tensors in the Hurray format."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(2)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on stderr."""
    # Without a standard output, or error, there is nobody to tell.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - open until the end
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is spelled out instead of ending the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=None if arguments is None else list(arguments), prog_name="hurray", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone; python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130)
    except (HurrayError, OSError, ValueError, LookupError, MemoryError) as error:
        return _fail(_message(error), 1)
    except Exception as error:
        # typer's usage errors, whichever library they come from, know how to show themselves.
        if not hasattr(error, "format_message"):
            raise
        return _fail(error.format_message(), int(getattr(error, "exit_code", 2)))
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, KeyError) and not isinstance(error, HurrayError):
        return f"no tensor {error.args[0]!r}" if error.args else "no such tensor"
    text = str(error)
    for advice, option in _ADVICE.items():
        text = text.replace(advice, option)
    return text or type(error).__name__


def _fail(message: Any, code: int) -> int:
    sys.stderr.write(f"hurray: {clean(' '.join(str(message).split()))}\n")
    return code
