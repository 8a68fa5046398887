"""Which columns a stream looks at, and which edges it asks for: those that an audit in memory would use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from miscal.auditing.column_choice import FEW
from miscal.auditing.periods import chosen_every, period_edges
from miscal.auditing.search.parts import FINE, date_edges, month_edges
from miscal.carriers.summary import Summary
from miscal.carriers.tally import Tally
from miscal.data.errors import check_named
from miscal.data.vectors import arrow_of
from miscal.engines.buckets import DISTINCT
from miscal.engines.keys import Given, Profile, Quantiles, VariableRanges, each_value
from miscal.engines.plan import SCORE
from miscal.engines.rows import Door
from miscal.engines.scan import Runner
from miscal.pooling.cells import Ranges

Requests = Callable[[str, str, Profile, bool], dict[str, Any]]
SCORE_BINS = 15
VARIABLE_BINS = 10
UNLIKE = 0.9  # share of a sample's rows from which on distinct texts name rows, not groups


def columns_of(
    runner: Runner, door: Door, by: Sequence[str] | None, ignore: Sequence[str]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns to look at, and those set aside because their type cannot be used or they name the rows."""
    known = [name for name in runner.kinds if name not in door.columns]
    check_named([*(by or ()), *ignore], runner.kinds, runner.words, known)
    chosen = [name for name in (by or known) if name not in ignore and name not in door.columns]
    aside = [set_aside(name, "its type cannot be used") for name in chosen if not runner.kinds[name]]
    chosen = [name for name in chosen if runner.kinds[name]]
    text = [name for name in chosen if runner.kinds[name] == "category"] if not by else []
    if text:
        import pyarrow as pa

        seen: dict[str, list[Any]] = {name: [] for name in text}
        rows = 0
        for chunk in runner.sample([*door.columns, *text]):
            batch = door.open(chunk)
            if batch is not None:
                rows += batch.rows
                for name in text:
                    codes, levels = batch.levels(name)
                    seen[name].append(levels.take(arrow_of(np.unique(codes[codes >= 0]))))
        for name in text:
            different = len(pa.chunked_array(seen[name], pa.string()).unique())
            if different > max(FEW, UNLIKE * rows):
                chosen.remove(name)
                aside.append(set_aside(name, f"an identifier: {different:,} levels in a sample of {rows:,} rows"))
    return chosen, aside


def set_aside(name: str, reason: str) -> dict[str, Any]:
    """A column left out, with the reason."""
    return {"where": name, "rows": None, "reason": reason}


def requests_of(key: str, kind: str, profile: Profile, unequal: bool) -> dict[str, Any]:
    """The edges that an audit in memory would use."""
    ties = _ties(profile)
    if key == SCORE:
        return {"bins": Quantiles(SCORE_BINS, unequal), **ties}
    bins: Any = VariableRanges(VARIABLE_BINS, unequal)
    if kind != "date":
        return {"bins": bins, "fine": VariableRanges(FINE, unequal), **ties}
    ends = np.array([profile.low, profile.high])
    months = month_edges(ends)
    return {"bins": bins if months is None else Given(months), "fine": Given(date_edges(ends)), **ties}


def _ties(profile: Profile) -> dict[str, Any]:
    """A cell for each value where there are so few that a walk along them is no Brownian motion."""
    return {"ties": Given(each_value(profile.distinct))} if profile.distinct.size < DISTINCT else {}


def requests_timed(time: str, every: str | None) -> Requests:
    """Ask for the periods of one column of dates, for the edges of an audit in memory of all others."""

    def requests(key: str, kind: str, profile: Profile, unequal: bool) -> dict[str, Any]:
        asked = requests_of(key, kind, profile, unequal)
        if key != time or kind != "date" or not profile.rows.size:
            return asked
        word = chosen_every(np.array([profile.low, profile.high]), every)
        return {**asked, "bins": Given(period_edges(profile.low, profile.high, word))}

    return requests


def requests_like(like: Summary) -> Requests:
    """Ask for the edges of another summary."""

    def requests(key: str, kind: str, profile: Profile, unequal: bool) -> dict[str, Any]:
        if key == SCORE:
            return {"bins": Given(_edges(like.score)), **_ties(profile)}
        if key not in like.variables:
            return requests_of(key, kind, profile, unequal)
        same = {word: Given(_edges(getattr(like.variables[key], word))) for word in ("bins", "fine")}
        return same | _ties(profile)

    return requests


def _edges(tally: Tally) -> np.ndarray:
    assert isinstance(tally.cells, Ranges)
    return tally.cells.edges
