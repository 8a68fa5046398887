"""The command `miscal`: how it starts, how it prints, and how it ends.

An error ends in one line on standard error and an exit status: 1 if a gate failed, 2 for wrong usage or wrong data, 3
for an internal error, 130 if interrupted. Text that cannot be printed affects neither files nor exit status. Commands
are in `miscal.cli.commands`.
"""

import codecs
import errno
import os
import sys
import warnings
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import click

from miscal.data.errors import MiscalError, MiscalWarning, Parameter, Spelling, visible

__all__ = ["CommandGroup", "main"]

# Functions of `miscal.cli.commands`, which is imported when a command runs.
COMMANDS = ("apply", "audit", "check", "demo", "fit", "merge", "recalibrate", "report", "summarize")
# Earlier names of commands: they work, print nothing about it, and are in no help text.
ALIASES = {"page": "report", "tally": "summarize"}
INTERNAL_ERROR, INTERRUPTED = 3, 130

# Replacements of the characters that the command prints, for streams that can encode ASCII only.
ASCII_EQUIVALENTS = {
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{MINUS SIGN}": "-",
    "\N{EM DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{MIDDLE DOT}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
}


class CommandGroup(click.Group):
    """The group of all commands: imports a command when it runs, and ends errors in one line and an exit status."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name in COMMANDS:
            self.add_command(getattr(import_module("miscal.cli.commands"), cmd_name))
        return super().get_command(context, cmd_name)

    def as_option(self, parameter: Parameter) -> str:
        """A parameter of Python spelled as the option that sets it, or as in Python where no option does."""
        options = {
            option.name: option
            for command in self.commands.values()
            for option in command.params
            if option.opts
        }
        option = options.get(parameter.name)
        if not isinstance(option, click.Option):
            return parameter.otherwise or parameter.in_python()
        value = "" if option.is_flag else parameter.value.strip("'")
        return f"{option.opts[0]} {value}".strip()

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run a command and return its exit status, or exit with it; 1 is reserved for gates that failed."""
        replace_unencodable()
        # Arrow's allocator is to keep freed memory for the next batch: it returns it within milliseconds
        # otherwise, and taking it anew costs a third of decoding. Passes return it themselves near the memory limit.
        if "pyarrow" not in sys.modules:
            os.environ.setdefault("MIMALLOC_PURGE_DELAY", "60000")
        try:
            with warnings.catch_warnings():
                warnings.showwarning = partial(_show_warning, warnings.showwarning, self.as_option)
                status = super().main(*args, **{**options, "standalone_mode": False})
        except MiscalError as error:
            echo_error(visible(" ".join(error.text(self.as_option).split())))
            status = 2
        except click.ClickException as error:
            with suppress(OSError):
                error.show()
            status = error.exit_code
        except click.Abort:
            # An interrupt inside exec(text), as dataclasses call it, leaves a mark on the interpreter
            # that turns every later exit status into "killed by SIGINT"; the next exec(text) wipes it.
            exec("")  # noqa: S102
            echo_error(f"interrupted; {'its files were written' if WRITTEN_FILES else 'nothing was written'}")
            status = INTERRUPTED
        except SystemExit:  # from click, where the reader of --help has closed the pipe
            status = 0
        except Exception as error:  # noqa: BLE001
            status = _internal_error(error)
        if standalone_mode:
            raise SystemExit(status)
        return status


def _internal_error(error: Exception) -> int:
    """Print an unexpected exception in one line: a full disk, lack of memory, or else an internal error."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # of the text of --help and --version
        unprinted(error)
        return 0
    if isinstance(error, MemoryError):
        echo_error("out of memory; pass --memory, such as --memory 1GB, to read the table in parts")
        return 2
    import traceback

    if os.environ.get("MISCAL_TRACEBACK"):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    source = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119
    request = "Please report this line at the issue tracker; MISCAL_TRACEBACK=1 prints the traceback"
    echo_error(f"internal error: {message} ({source}). {request}.")
    return INTERNAL_ERROR


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="miscal")
def main() -> None:
    """Find where a model's probabilities are miscalibrated, test it, and recalibrate."""


def _show_warning(
    shown: Any, as_option: Spelling, message: Any, category: type[Warning], *where: Any, **more: Any
) -> None:
    """Print warnings of the library in one line, without the source line that raised them."""
    if issubclass(category, MiscalWarning):
        echo_error(f"note: {' '.join(message.text(as_option).split())}")
    else:
        shown(message, category, *where, **more)


# ------------------------------------------------------------------------------------------------- text to people
def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join(ASCII_EQUIVALENTS.get(sign, f"\\u{ord(sign):04x}") for sign in missing), error.end


WRITTEN_FILES: list[str] = []  # named in the message of a later interrupt


def replace_unencodable() -> None:
    """Have both streams replace the characters that their encoding lacks."""
    WRITTEN_FILES.clear()
    codecs.register_error("ascii_equivalents", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="ascii_equivalents")


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; a closed one is not."""
    with suppress(ValueError):
        return bool(stream is not None and stream.isatty())
    return False


def echo(text: str) -> None:
    """Print text on standard output, or go on without."""
    try:
        _print(sys.stdout, text)
    except OSError as error:
        unprinted(error)


def unprinted(error: OSError) -> None:
    """Drop the output; print the reason unless the reader closed the pipe."""
    _drop(1)
    if not isinstance(error, BrokenPipeError):
        echo_error(f"the text could not be printed ({error.strerror or error}); everything else was done")


def echo_error(text: str) -> None:
    """Print one line on standard error, or go on without."""
    try:
        _print(sys.stderr, f"miscal: {text}")
    except OSError:
        _drop(2)


def _print(stream: Any, text: str) -> None:
    if stream is not None:
        with suppress(ValueError):  # closed from within
            print(text, file=stream, flush=True)


def _drop(number: int) -> None:
    """Point a stream to the null device: its buffer would fail again when the interpreter closes it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
