"""The options of the commands, as options.toml has them, and what the library is given of them."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import click

from miscal.data.errors import refusal

PATH = click.Path(path_type=Path)


def _matched(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names with each pattern replaced by the columns that it stands for."""
    file = context.params.get("file")  # an argument that is read before all options
    if file is None or not any("*" in name for name in names):
        return names
    from miscal.data.frames import named_by
    from miscal.engines.source import opened

    known = opened(str(file)).names
    return tuple(dict.fromkeys(each for name in names for each in (named_by(name, known) if "*" in name else [name])))


OPTIONS = tomllib.loads(resources.files("miscal.cli").joinpath("options.toml").read_text(encoding="utf-8"))
TYPES = {"path": PATH, "name": click.Path(), "number": float, "whole": int}
TYPES |= {f"from {least}": click.IntRange(min=least) for least in (0, 1)}
# What the columns of a table are and how widely to look; what is predicted, where that is no event.
TABLE = "outcome probability logit positive weight count cluster by ignore effort suppress-below seed"
TABLE += " prediction response exposure"


def command(function: Any) -> click.Command:
    """A command that takes the options under its name in options.toml."""
    own = OPTIONS[function.__name__]
    for asked in reversed(own["options"].replace("TABLE", TABLE).split()):
        word = asked.rstrip("!")
        given = {**OPTIONS["all"].get(word, {}), **own.get(word, {})}
        if "type" in given:
            kind = given["type"]
            given["type"] = click.Choice(kind) if isinstance(kind, list) else TYPES[kind]
        if word == "probability" and given["multiple"]:
            given["callback"] = _matched
        flags = given.pop("flags", [f"--{word}"])
        function = click.option(*flags, required=asked != word, **given)(function)
    return click.command()(function)


def table_path(path: Path | None, file: str | Path, word: str) -> Path:
    """The path of a table to write, by default here, as CSV if the table it comes from is one.

    Refused where its ending names neither format.
    """
    suffix = ".csv" if Path(file).suffix.lower() == ".csv" else ".parquet"
    path = path or Path(f"{Path(file).stem}-{word}{suffix}")
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise refusal("must end in .parquet or .csv", where="--out", got=f"it is '{path}'")
    return path


def one_or_list(names: tuple[str, ...]) -> str | list[str] | None:
    """The columns of the probability as `miscal.read` takes them."""
    return names[0] if len(names) == 1 else list(names) or None


def audit_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a table as `miscal.audit` takes them."""
    return {**options, "probability": one_or_list(options["probability"]), "by": list(options["by"]) or None}
