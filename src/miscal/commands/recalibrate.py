"""The command `miscal recalibrate`: choose a repair, show on unseen rows what it mends, and write it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from miscal.cli import audit_options, table_options
from miscal.data.errors import refusal

__all__ = ["recalibrate"]
SHOWN = 15


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@table_options
@click.option("--allowed", multiple=True, help="Column that the repair may use; repeat. Those audited by default.")
@click.option("--score-only", is_flag=True, help="The repair may use no column, only the score.")
@click.option("--folds", default=0, help="Cross-fit over so many folds; by default half the rows fit, half test.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Repaired table: .parquet or .csv.")
@click.option("--model", type=click.Path(path_type=Path), help="JSON of the repair, for `miscal apply`.")
@click.option("--page", type=click.Path(path_type=Path), help="Page of before and after.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="JSON of before and after.")
def recalibrate(
    file: Path, out: Path, model: Path | None, page: Path | None, json_path: Path | None, allowed: tuple[str, ...],
    score_only: bool, folds: int, **options: Any,
) -> None:  # fmt: skip
    """Repair a table's probabilities, and show on unseen rows which errors are gone, smaller, remaining or new."""
    from miscal.report.repairing import repair_table

    if score_only and allowed:
        raise refusal("excludes --allowed", where="--score-only", got="both are given")
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise refusal("must end in .parquet or .csv", where="--out", got=f"it is '{out}'")
    made = audit_options(options)
    if made.pop("suppress_below", 0):
        raise refusal("is not for repairs", where="--suppress-below", hint="audit the repaired table with it")
    if made["outcome"] is None or made["probability"] is None:
        raise refusal("needs --outcome and --probability", where="recalibrate")
    limited = () if score_only else list(allowed) or None
    done = repair_table(file, allowed=limited, folds=folds, **made)
    for path in filter(None, (out, model, page, json_path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    done.write(table=out, model=model, page=page, json=json_path)
    record = done.record
    click.echo(f"{record.about['reason']}\n{record.sentence}")
    for place in record.places[:SHOWN]:
        click.echo("  " + _line(place))
    if len(record.places) > SHOWN:
        click.echo(f"  ... and {len(record.places) - SHOWN} more")
    written = [("Table", out), ("Model", model), ("Page", page), ("JSON", json_path)]
    click.echo("   ".join(f"{what}: {path}" for what, path in written if path))


def _line(place: dict[str, Any]) -> str:
    from miscal.report.words import points

    gaps = [points((place[when] or {}).get("gap")) for when in ("before", "after")]
    return f"{place['verdict']:<9} {place['where']}: {gaps[0]} before, {gaps[1]} after"
