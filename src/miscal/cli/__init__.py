"""The command: a table of predictions in, a ranking in the terminal and a page out.

Text that cannot be printed is lost without harm to the work, its files and its exit status.
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

__all__ = ["OneLine", "main"]

# They live in `miscal.cli.commands`, which is imported when one is asked for.
COMMANDS = ("apply", "audit", "check", "demo", "fit", "merge", "recalibrate", "report", "summarize")
# Earlier names of commands: they work, print nothing about it, and are in no help text.
ALIASES = {"page": "report", "tally": "summarize"}
DEFECT, INTERRUPTED = 3, 130

# What the command prints beyond ASCII, for streams that know no more than that.
PLAIN = {
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{MINUS SIGN}": "-",
    "\N{EM DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{MIDDLE DOT}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
}


class OneLine(click.Group):
    """Errors end in one clear line: exit status 2 for what the user can mend, 3 for what is ours to mend."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name in COMMANDS:
            self.add_command(getattr(import_module("miscal.cli.commands"), cmd_name))
        return super().get_command(context, cmd_name)

    def as_option(self, parameter: Parameter) -> str:
        """A parameter of Python as the option of the running command that sets it, or as in Python where none does."""
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
        """Run, and say how it ended; exit status 1 is for gates that failed, whatever click makes of a closed pipe."""
        steady()
        # Arrow's allocator is to keep freed memory for the next batch: it gives it back within milliseconds otherwise,
        # and taking it anew costs a third of decoding. The passes give it back themselves as they near their ceiling.
        if "pyarrow" not in sys.modules:
            os.environ.setdefault("MIMALLOC_PURGE_DELAY", "60000")
        try:
            with warnings.catch_warnings():
                warnings.showwarning = partial(_warn, warnings.showwarning, self.as_option)
                status = super().main(*args, **{**options, "standalone_mode": False})
        except MiscalError as error:
            complain(visible(" ".join(error.text(self.as_option).split())))
            status = 2
        except click.ClickException as error:
            with suppress(OSError):
                error.show()
            status = error.exit_code
        except click.Abort:
            # An interrupt inside exec(text), as dataclasses call it, leaves a mark on the interpreter
            # that turns every later exit status into "killed by SIGINT"; the next exec(text) wipes it.
            exec("")  # noqa: S102
            complain(f"interrupted; {'its files were written' if WRITTEN else 'nothing was written'}")
            status = INTERRUPTED
        except SystemExit:  # click's, where the reader of --help has gone away
            status = 0
        except Exception as error:  # noqa: BLE001
            status = _unforeseen(error)
        if standalone_mode:
            raise SystemExit(status)
        return status


def _unforeseen(error: Exception) -> int:
    """Say in one line what went wrong that nobody refused: for want of room, else by a mistake of ours."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # of the text of --help and --version
        unprinted(error)
        return 0
    if isinstance(error, MemoryError):
        complain("out of memory; pass --memory, such as --memory 1GB, to read the table in parts")
        return 2
    import traceback

    if os.environ.get("MISCAL_TRACEBACK"):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119
    ask = "Please report this line at the issue tracker; MISCAL_TRACEBACK=1 prints the traceback"
    complain(f"internal error: {said} ({place}). {ask}.")
    return DEFECT


@click.group(cls=OneLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="miscal")
def main() -> None:
    """Find where a model's probabilities are miscalibrated, test it, and recalibrate."""


def _warn(
    shown: Any, as_option: Spelling, message: Any, category: type[Warning], *where: Any, **more: Any
) -> None:
    """Say the library's warnings in one line, without the place in the code from which the command called it."""
    if issubclass(category, MiscalWarning):
        complain(f"note: {' '.join(message.text(as_option).split())}")
    else:
        shown(message, category, *where, **more)


# ------------------------------------------------------------------------------------------------- text to people
def _spelled(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign, f"\\u{ord(sign):04x}") for sign in lost), error.end


WRITTEN: list[str] = []  # what the command says it wrote, for an interrupt that comes after


def steady() -> None:
    """Have both streams spell out what their encoding lacks."""
    WRITTEN.clear()
    codecs.register_error("spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="spelled")


def is_terminal(stream: Any) -> bool:
    """Whether a person looks at a stream; one that is closed is none."""
    with suppress(ValueError):
        return bool(stream is not None and stream.isatty())
    return False


def say(text: str) -> None:
    """Print a line or more, or go on without."""
    try:
        _print(sys.stdout, text)
    except OSError as error:
        unprinted(error)


def unprinted(error: OSError) -> None:
    """Go on without printing; a reader who has gone away has seen enough, any other reason is said."""
    _drop(1)
    if not isinstance(error, BrokenPipeError):
        complain(f"the text could not be printed ({error.strerror or error}); all else was done")


def complain(text: str) -> None:
    """Say one line to whoever looks after the command, if anyone does."""
    try:
        _print(sys.stderr, f"miscal: {text}")
    except OSError:
        _drop(2)


def _print(stream: Any, text: str) -> None:
    if stream is not None:
        with suppress(ValueError):  # closed from within
            print(text, file=stream, flush=True)


def _drop(number: int) -> None:
    """Point a stream to nowhere: what it still holds would fail again when the interpreter closes it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
