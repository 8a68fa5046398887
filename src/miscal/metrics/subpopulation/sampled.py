"""Generate subpopulations from a sample of a stream's rows: definitions only, the whole table is measured by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.columns import Column, Columns, column
from miscal.data.errors import refusal
from miscal.engines.rows import Batch
from miscal.engines.subpopulations import ordered
from miscal.metrics.subpopulation.inputs import Asked, Kept
from miscal.pairs import Pair
from miscal.pooling.slots import NOMINAL
from miscal.pooling.subpopulations import Conjunctions, Definition, RandomPaths

MOST_LEVELS = 1000  # a column of more levels is used only if it was named


def is_generator(subpopulations: Any) -> bool:
    """Whether subpopulations are to be generated."""
    if isinstance(subpopulations, (RandomPaths, Conjunctions)):
        return True
    return isinstance(subpopulations, (int, np.integer)) and not isinstance(subpopulations, (bool, np.bool_))


def sample_columns(batches: list[Batch], names: list[str], kinds: dict[str, str]) -> Columns:
    """Columns of some batches as one table's."""
    found: dict[str, Column] = {}
    for name in names:
        if kinds[name] in NOMINAL:
            import pyarrow as pa

            pieces = []
            for batch in batches:
                codes, levels = batch.levels(name)
                pieces.append(levels.take(pa.array(codes, mask=codes < 0)))
            found[name] = column(name, pa.chunked_array(pieces, pa.string()))
        else:
            values = np.concatenate([batch.numbers(name) for batch in batches])
            kind: Any = "date" if kinds[name] == "date" else "numeric"
            found[name] = Column(name, kind, values, integer=kinds[name] == "integer")
    return Columns(found)


def generated(
    batches: list[Batch],
    names: list[str],
    named: list[str],
    kinds: dict[str, str],
    subpopulations: Any,
    nominal: Any,
    least: int,
    random_state: Any,
) -> tuple[dict[str, Definition], list[str]]:
    """Definitions by their short words, and the columns used."""
    if not batches:
        return {}, names
    columns = sample_columns(batches, names, kinds)
    used = [
        name for name in names if name in named or not columns[name].nominal or len(columns[name].levels) <= MOST_LEVELS
    ]
    if not used:
        raise refusal("needs columns to make subpopulations from", where="'columns'", got="got none that can be used")
    pair = joined([batch.pair for batch in batches])
    asked = Asked(columns, used, Kept(pair.rows), nominal, least, 0.0, random_state, naming=True)
    found = asked.search(ordered(pair), subpopulations)
    made: dict[str, Definition] = {}
    for one in (found.define(k) for k in range(1, len(found.stats))):
        made[one.name if one.name not in made else one.words()] = one
    return made, used


def joined(pairs: list[Pair]) -> Pair:
    """The pairs of several batches as one."""

    def whole(word: str) -> np.ndarray | None:
        pieces = [getattr(pair, word) for pair in pairs]
        return None if pieces[0] is None else np.concatenate(pieces)

    predicted, observed = whole("predicted"), whole("observed")
    assert predicted is not None
    assert observed is not None
    return Pair(predicted, observed, whole("weight"), whole("count"), None, pairs[0].target)
