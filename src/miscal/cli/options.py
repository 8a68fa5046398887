"""Options that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from miscal.data.errors import refusal

PATH = click.Path(path_type=Path)
HIDE = "Keep cells of fewer rows out of page, JSON and CSV."


def _matched(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names with each pattern replaced by the columns that it stands for."""
    file = context.params.get("file")  # an argument that is read before all options
    if file is None or not any("*" in name for name in names):
        return names
    from miscal.data.frames import named_by
    from miscal.engines.source import opened

    known = opened(str(file)).names
    return tuple(dict.fromkeys(each for name in names for each in (named_by(name, known) if "*" in name else [name])))


# What click is told of an option, by its name; `flags` where it has others than that.
OPTIONS: dict[str, dict[str, Any]] = {
    "outcome": {"help": "Column of the outcome."},
    "probability": {
        "multiple": True,
        "callback": _matched,
        "help": "Column of the probability; repeat, or a pattern such as 'p_*'.",
    },
    "logit": {"is_flag": True, "help": "The probability columns hold logits."},
    "positive": {"help": "The label that is the event."},
    "weight": {"help": "Column of sampling weights."},
    "count": {"help": "Column of trials; the outcome then counts events."},
    "cluster": {"help": "Column of clusters: rows of one cluster are not independent."},
    "by": {"multiple": True, "help": "Column to look at; repeat. All by default."},
    "ignore": {"multiple": True, "help": "Column to leave out; repeat."},
    "effort": {"default": "normal", "show_default": True, "type": click.Choice(["quick", "normal", "deep"])},
    "suppress-below": {"default": 0, "type": click.IntRange(min=0), "help": HIDE},
    "seed": {"default": 0, "show_default": True, "type": click.IntRange(min=0), "help": "Seed of the simulations."},
    "prediction": {"help": "Column of the predicted mean, in the place of --probability."},
    "response": {
        "default": "binary",
        "type": click.Choice(["binary", "real", "count"]),
        "help": "What is predicted: an event, a number, or a count.  [default: binary]",
    },
    "exposure": {"help": "Column of exposures; the prediction is a rate a unit of it."},
    "time": {"help": "Column of dates or years: judges each week, month, ..., and what changed."},
    "every": {
        "type": click.Choice(["week", "month", "quarter", "year"]),
        "help": "Period of --time; by how long the table lasts if not given.",
    },
    "memory": {"help": "Ceiling of memory, such as 600MB; 1GB by default."},
    "max-levels": {"type": click.IntRange(min=1), "help": "A field with more levels is set aside.  [default: 1000000]"},
    "out": {"type": PATH, "help": "Page to write."},
    "json": {"flags": ["--json", "json_path"], "type": PATH, "help": "JSON to write."},
    "save": {"flags": ["--save", "saved"], "type": PATH},
    "baseline": {"type": PATH, "help": "An earlier audit (of --save or --json) to compare with."},
}
# What the columns of a table are and how widely to look; what is predicted, where that is no event.
TABLE = "outcome probability logit positive weight count cluster by ignore effort suppress-below seed"
TABLE += " prediction response exposure"
IN_PARTS = "Read the table in parts and stay below this much memory, such as 600MB or 1GB."
PAGE = {"default": "report.html", "show_default": True}


def options(names: str, **own: Any) -> Callable[[Any], Any]:
    """The options of these names, listed by --help in this order; one that ends in ! must be given.

    own : what a command says of an option over what the table says, or its help alone
    """

    def decorate(command: Any) -> Any:
        for name in reversed(names.split()):
            word = name.rstrip("!")
            said = own.get(word.replace("-", "_"), {})
            given = {**OPTIONS.get(word, {}), **({"help": said} if isinstance(said, str) else said)}
            flags = given.pop("flags", [f"--{word}"])
            command = click.option(*flags, required=name != word, **given)(command)
        return command

    return decorate


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
    made = {name: value for name, value in options.items() if name != "max_levels" or value is not None}
    made["probability"] = one_or_list(made["probability"])
    made["by"] = list(made["by"]) or None
    made["random_state"] = made.pop("seed")
    return made
