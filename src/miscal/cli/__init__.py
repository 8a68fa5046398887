"""The command: a table of predictions in, a ranking in the terminal and a page out."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from miscal.data.errors import MiscalError, MiscalWarning, visible

__all__ = ["OneLine", "main"]

# Which module of this folder a command lives in; it is imported when asked for.
COMMANDS = {
    "apply": "recalibrate",
    "audit": "audit",
    "check": "check",
    "demo": "audit",
    "fit": "recalibrate",
    "merge": "audit",
    "page": "audit",
    "recalibrate": "recalibrate",
    "tally": "audit",
}
SAME = "positive|outcome|probability|weight|count|cluster|time|every"  # options that are parameters of the same name


class OneLine(click.Group):
    """Errors end in one clear line and exit status 2, never in a traceback."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted([*super().list_commands(context), *COMMANDS])

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = getattr(import_module(f"miscal.cli.{COMMANDS[cmd_name]}"), cmd_name)
            return command
        return super().get_command(context, cmd_name)

    def invoke(self, context: click.Context) -> Any:
        _hold_pages()
        try:
            with _plain_warnings():
                return super().invoke(context)
        except MiscalError as error:
            click.echo(f"miscal: {_as_options(visible(' '.join(str(error).split())))}", err=True)
            context.exit(2)
        except KeyboardInterrupt:
            # An interrupt inside exec(text), as dataclasses call it, leaves a mark on the interpreter
            # that turns every later exit status into "killed by SIGINT"; the next exec(text) wipes it.
            exec("")  # noqa: S102
            click.echo("miscal: interrupted; nothing was written", err=True)
            context.exit(130)


@click.group(cls=OneLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="miscal")
def main() -> None:
    """Find where a model's probabilities are wrong, show it, and fix it."""


def _hold_pages() -> None:
    """Have Arrow's allocator keep freed memory for the next batch, where Arrow is not loaded yet.

    It gives memory back within milliseconds otherwise, and taking it anew costs a third of decoding. The passes give
    it back themselves as they near their ceiling. This process is the command's own, so its environment may be set.
    """
    if "pyarrow" not in sys.modules:
        os.environ.setdefault("MIMALLOC_PURGE_DELAY", "60000")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Say the library's warnings in one line, without the place in the code from which the command called it."""
    shown = warnings.showwarning

    def say(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, MiscalWarning):
            click.echo(f"miscal: note: {_as_options(' '.join(str(message).split()))}", err=True)
        else:
            shown(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


def _as_options(text: str) -> str:
    """Hints name Python's parameters; here they are options."""
    text = re.sub(r"\buse miscal\.read\(\.\.\., logit=True\)", "pass --logit", text)
    text = re.sub(r" Rounding noise\? .*clip.*$", " Rounding noise? bring the values into [0, 1] first", text)
    text = re.sub(r"\blogit=True\b", "--logit", text)
    text = re.sub(rf"^'({SAME}|by|ignore|allowed|folds|column|memory)'", r"--\1", text)
    text = re.sub(r"'max_levels'|\bmax_levels\b", "--max-levels", text)
    text = text.replace("'suppress_below'", "--suppress-below").replace("leave it out with ignore", "--ignore it")
    text = text.replace("a recalibrator written by to_json", "a model written by `miscal recalibrate` or to_json")
    return re.sub(rf"\b({SAME})=", r"--\1 ", text)
