"""The command `miscal recalibrate`: choose a repair, show on unseen rows what it mends, and write it down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from miscal.cli import audit_options, table_options, waiting
from miscal.data.errors import refusal
from miscal.data.places import prepared

__all__ = ["recalibrate"]
SHOWN = 15
PATH = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=PATH)
@table_options
@click.option("--allowed", multiple=True, help="Column that the repair may use; repeat. Those audited by default.")
@click.option("--score-only", is_flag=True, help="The repair may use no column, only the score.")
@click.option("--folds", default=0, help="Cross-fit over so many folds; by default half the rows fit, half test.")
@click.option("--out", type=PATH, help="Repaired table, .parquet or .csv.  [default: FILE-repaired]")
@click.option("--model", type=PATH, help="JSON of the repair, for `miscal apply`.  [default: FILE-repair.json]")
@click.option("--page", type=PATH, help="Page of before and after.  [default: FILE-repair.html]")
@click.option("--json", "json_path", type=PATH, help="JSON of before and after.")
def recalibrate(
    file: Path, out: Path | None, model: Path | None, page: Path | None, json_path: Path | None,
    allowed: tuple[str, ...], score_only: bool, folds: int, **options: Any,
) -> None:  # fmt: skip
    """Repair a table's probabilities, and show on unseen rows which errors are gone, smaller, remaining or new.

    Writes the table with the repaired probabilities in a column `recalibrated`, and in `recalibrated_part` whether a
    row fitted the repair or tested it; the repair as a model; and a page of before and after.
    """
    from miscal.auditing.repair_table import repair_table

    if score_only and allowed:
        raise refusal("excludes --allowed", where="--score-only", got="both are given")
    out = out or table_name(file, "repaired")
    model, page = model or _beside(file, ".json"), page or _beside(file, ".html")
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise refusal("must end in .parquet or .csv", where="--out", got=f"it is '{out}'")
    made = audit_options(options)
    if made.pop("suppress_below", 0):
        raise refusal("is not for repairs", where="--suppress-below", hint="audit the repaired table with it")
    if made["outcome"] is None or made["probability"] is None:
        raise refusal("needs --outcome and --probability", where="recalibrate", hint=_columns(file))
    prepared({"--out": out, "--model": model, "--page": page, "--json": json_path}, table=file)
    limited = () if score_only else list(allowed) or None
    with waiting("Choosing, fitting and judging a repair"):
        done = repair_table(file, allowed=limited, folds=folds, **made)
    done.write(table=out, model=model, page=page, json=json_path)
    _told(done.record)
    written = [("Table", out), ("Model", model), ("Page", page), ("JSON", json_path)]
    click.echo("   ".join(f"{what}: {path}" for what, path in written if path))
    named = " ".join(f"--probability {name}" for name in options["probability"])
    click.echo(f"Repair new rows: miscal apply {model} FILE {named}{' --logit' * options['logit']}")


for _option in recalibrate.params:
    if _option.name == "suppress_below":  # refused with a reason, and so not offered
        _option.hidden = True  # type: ignore[attr-defined]


def table_name(file: Path, word: str) -> Path:
    """Where a table goes whose place is not given: here, as CSV if the table it comes from is one."""
    suffix = ".csv" if file.suffix.lower() == ".csv" else ".parquet"
    return Path(f"{file.stem}-{word}{suffix}")


def _beside(file: Path, suffix: str) -> Path:
    return Path(f"{file.stem}-repair{suffix}")


def _columns(file: Path) -> str:
    """What the columns are, for one who has not named any."""
    from miscal.engines.readers import reader_of

    names = list(reader_of(str(file)).kinds)
    return f"the columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


def _told(record: Any) -> None:
    from miscal.page.figures.repair import left_first

    click.echo(f"{record.about['reason']}\n{record.sentence}")
    for place in left_first(record.places)[:SHOWN]:
        click.echo("  " + _line(place))
    if len(record.places) > SHOWN:
        click.echo(f"  ... and {len(record.places) - SHOWN} more")


def _line(place: Mapping[str, Any]) -> str:
    from miscal.page.words import points

    gaps = [points((place[when] or {}).get("gap")) for when in ("before", "after")]
    return f"{place['verdict']:<9} {place['where']}: {gaps[0]} before, {gaps[1]} after"
