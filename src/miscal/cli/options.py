"""Options that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from miscal.data.errors import refusal

Option = Callable[[Any], Any]
PATH = click.Path(path_type=Path)

LOGIT = click.option("--logit", is_flag=True, help="The probability columns hold logits.")
POSITIVE = click.option("--positive", help="The label that is the event.")
WEIGHT = click.option("--weight", help="Column of sampling weights.")
COUNT = click.option("--count", help="Column of trials; the outcome then counts events.")
CLUSTER = click.option("--cluster", help="Column of clusters: rows of one cluster are not independent.")
BY = click.option("--by", multiple=True, help="Column to look at; repeat. All by default.")
IGNORE = click.option("--ignore", multiple=True, help="Column to leave out; repeat.")
EFFORT = click.option("--effort", default="normal", show_default=True, type=click.Choice(["quick", "normal", "deep"]))
SEED = click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the simulations.")
PREDICTION = click.option("--prediction", help="Column of the predicted mean, in the place of --probability.")
RESPONSE = click.option(
    "--response", default="binary", type=click.Choice(["binary", "real", "count"]),
    help="What is predicted: an event, a number, or a count.  [default: binary]",
)  # fmt: skip
EXPOSURE = click.option("--exposure", help="Column of exposures; the prediction is a rate a unit of it.")
TIME = click.option("--time", help="Column of dates or years: judges each week, month, ..., and what changed.")
EVERY = click.option(
    "--every",
    type=click.Choice(["week", "month", "quarter", "year"]),
    help="Period of --time; by how long the table lasts if not given.",
)
CEILING = click.option("--memory", help="Ceiling of memory, such as 600MB; 1GB by default.")
MEMORY = click.option("--memory", help="Read the table in parts and stay below this much memory, such as 600MB or 1GB.")
MAX_LEVELS = click.option(
    "--max-levels",
    type=click.IntRange(min=1),
    help="A field with more levels is set aside.  [default: 1000000]",
)
PAGE = click.option("--out", default="report.html", show_default=True, type=PATH, help="Page to write.")
JSON = click.option("--json", "json_path", type=PATH, help="JSON to write.")
BASELINE = click.option("--baseline", type=PATH, help="An earlier audit (of --save or --json) to compare with.")


def outcome(*, required: bool = False) -> Option:
    """The column of the outcome."""
    return click.option("--outcome", required=required, help="Column of the outcome.")


def probability(*names: str, required: bool = False) -> Option:
    """The columns of the probability, by that name or by others too."""
    text = "Column of the probability; repeat, or a pattern such as 'p_*'."
    return click.option("--probability", *names, required=required, multiple=True, callback=_matched, help=text)


def _matched(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names with each pattern replaced by the columns that it stands for."""
    file = context.params.get("file")  # an argument that is read before all options
    if file is None or not any("*" in name for name in names):
        return names
    from miscal.data.frames import named_by
    from miscal.engines.source import opened

    known = opened(str(file)).names
    return tuple(dict.fromkeys(each for name in names for each in (named_by(name, known) if "*" in name else [name])))


def suppress_below(default: int | None = 0, said: str = "", *, hidden: bool = False) -> Option:
    """What is too small to be shown."""
    words = "Keep cells of fewer rows out of page, JSON and CSV." + said
    return click.option("--suppress-below", default=default, type=click.IntRange(min=0), help=words, hidden=hidden)


def together(*options: Option) -> Option:
    """Several options as one decorator, listed by --help in this order."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def table_options(*, suppressing: bool = True) -> Option:
    """What the columns of a table are and how widely to look."""
    hidden = suppress_below(hidden=not suppressing)
    return together(outcome(), probability(), LOGIT, POSITIVE, WEIGHT, COUNT, CLUSTER, BY, IGNORE, EFFORT, hidden, SEED)


MEANS = together(PREDICTION, RESPONSE, EXPOSURE)  # what is predicted, where that is no event


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
