"""Neighbourhoods of a table that is read in parts: those of a uniform sample of its rows, and said so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from miscal.data.errors import check_named, refusal
from miscal.data.sources import read
from miscal.engines.rows import Door
from miscal.engines.runners import restarted, runner_for
from miscal.engines.sampling import SamplePass, SampleState
from miscal.metrics.neighbourhood.result import NeighbourhoodResult, by_neighbourhood
from miscal.pooling.subpopulations import check_count

SAMPLE = 20_000


def neighbourhoods_in_parts(
    source: Any,
    columns: str | Sequence[str] | None = None,
    *,
    outcome: str,
    probability: Any,
    weight: str | None = None,
    count: str | None = None,
    memory: Any = None,
    sample: int = SAMPLE,
    target: str | int = "auto",
    random_state: int = 0,
    positive: Any = None,
    logit: bool = False,
    clip: float = 0.0,
    **options: Any,
) -> NeighbourhoodResult:
    """As `by_neighbourhood`, on `sample` rows of a path, a lazy frame or a Spark DataFrame.

    The rows are drawn in one pass, each equally likely: those with the smallest hash of `random_state`, part and row
    number. ``settings["sample_rows"]`` and ``settings["table_rows"]`` state how many of how many.
    """
    most = check_count("sample", sample, 2)
    runner = runner_for(source, memory)
    door = Door(outcome, probability, weight, count, positive, logit, clip, target)
    given = [columns] if isinstance(columns, str) else list(columns or ())
    known = [name for name, kind in runner.kinds.items() if kind and name not in door.columns]
    check_named([*door.columns, *given], runner.kinds, runner.words, known)
    names = given or known
    runner.check([*door.columns, *names])
    job = SamplePass(door, tuple(names), most, random_state)
    state: SampleState = restarted(runner, lambda: runner.run(job))
    table = state.table()
    if table is None:
        raise refusal("must have at least one row", where=runner.words, got="no row has weight")
    found = read(
        table, outcome=outcome, probability=probability, weight=weight, count=count, positive=positive, logit=logit,
        clip=clip, columns=names,
    )  # fmt: skip
    made = by_neighbourhood(found, names, target=target, random_state=random_state, **options)
    rows = {"sample_rows": int(table.num_rows), "table_rows": int(state.rows[0])}
    words = (
        f" Neighbourhoods of a sample of {table.num_rows:,} of {int(state.rows[0]):,} rows, drawn with equal chance."
    )
    return replace(made, method=made.method + words, settings={**made.settings, **rows})
