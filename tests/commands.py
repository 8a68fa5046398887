"""The command as people call it, in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from miscal.cli import main


def run(*arguments: object) -> Result:
    """Run `miscal` with these words."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
