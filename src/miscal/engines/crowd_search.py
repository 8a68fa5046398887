"""Measure the subpopulations of a stream: a pass of sums, then the rows of the few buckets that decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.engines.buckets import KeyMap
from miscal.engines.crowd import CrowdPass, CrowdState, PullPass, PullState
from miscal.engines.crowd_walks import Crowd, Track
from miscal.engines.members import Members
from miscal.engines.rows import Door
from miscal.engines.scan import Runner
from miscal.pooling.slots import Compiled

CELL_BYTES, TRACK_BYTES = 32, 28  # a bucket of a cell, and of a walk read off the cells
LEAST_BUCKETS, MOST_BUCKETS = 256, 1 << 16
BUDGET = 2_000_000  # rows pulled, each counted once for every subpopulation that it is pulled for


@dataclass(frozen=True)
class Limits:
    """What a search may use: bytes of sums for one worker, rows pulled, passes over the table.

    partial : whether a pass is worth making that settles some walks, but not all that can be the largest
    """

    sums: int = 64 << 20
    rows: int = BUDGET
    passes: int = 4
    partial: bool = True


def buckets_for(members: Members, rows: int | None, limits: Limits) -> int:
    """A power of two of buckets that fits the limit; small tables need fewer."""
    bucket = CELL_BYTES * members.cells + TRACK_BYTES * members.count
    most = min(max(limits.sums // bucket, LEAST_BUCKETS), MOST_BUCKETS)
    if rows is not None:
        most = min(most, max(rows, LEAST_BUCKETS))
    return 1 << (int(most).bit_length() - 1)


def crowd_of(runner: Runner, door: Door, rules: Compiled, scores: np.ndarray, limits: Limits) -> Crowd:
    """The first pass."""
    members = Members(rules)
    buckets = buckets_for(members, runner.rows, limits)
    job = CrowdPass(door, members, KeyMap.fitted(scores, buckets))
    runner.check(job.columns)
    state: CrowdState = runner.run(job)
    if not int(state.rows[0]):
        raise refusal("must have at least one row", where=runner.words, got="no row has weight")
    return Crowd(members, state)


def score_sample(runner: Runner, door: Door, columns: list[str] | None = None) -> tuple[list[Any], np.ndarray]:
    """A few opened batches from all over the table, and their scores."""
    found = [door.open(chunk) for chunk in runner.sample(door.and_columns(columns or []))]
    batches = [batch for batch in found if batch is not None]
    scores = [batch.pair.predicted for batch in batches]
    return batches, np.concatenate(scores) if scores else np.array([0.0, 1.0])


class Settling:
    """Makes the walks exact that can be the largest, as far as rows and passes allow."""

    def __init__(self, runner: Runner, door: Door, crowd: Crowd, scale: np.ndarray, scores: np.ndarray) -> None:
        self.runner, self.door, self.crowd, self.scale, self.scores = runner, door, crowd, scale, scores
        self.tracks = {int(k): crowd.track(int(k)) for k in np.flatnonzero(scale > 0)}

    def run(self, limits: Limits) -> dict[int, Track]:
        """Settle; `exact` of a track says whether it was."""
        crowd, numbers = self.crowd, {k: k for k in self.tracks}
        open_ = self._contenders()
        while self._rows(open_) > limits.rows and self.runner.passes + 2 <= limits.passes:
            finer = self._finer(crowd, open_, limits)
            if finer is None:
                break
            crowd, numbers = finer, {k: i + 1 for i, k in enumerate(k for k in open_ if k)}
            numbers |= {0: 0} if 0 in open_ else {}
            for k in open_:
                self.tracks[k] = crowd.track(numbers[k])
            open_ = self._contenders()
        if not limits.partial and self._rows(open_) > limits.rows:
            return self.tracks
        chosen = self._affordable(open_, numbers, limits.rows)
        if chosen and self.runner.passes + 1 <= limits.passes:
            self._pull(crowd, {k: numbers[k] for k in chosen})
        return self.tracks

    def _contenders(self) -> list[int]:
        """Those not settled that can be the largest, those with the largest bound from below first."""
        low = {k: track.range * self.scale[k] for k, track in self.tracks.items()}
        best = max(low.values(), default=0.0)
        found = [k for k, t in self.tracks.items() if not t.exact and t.most * self.scale[k] >= best * (1.0 - 1e-12)]
        return sorted(found, key=lambda k: (-low[k], k))

    def _rows(self, chosen: list[int]) -> int:
        return int(sum(self.tracks[k].rows[self.tracks[k].needed].sum() for k in chosen))

    def _finer(self, crowd: Crowd, open_: list[int], limits: Limits) -> Crowd | None:
        """Another pass of sums over the contenders alone, with more buckets; None if there would not be more."""
        before = crowd.state.job.score.count
        members = Members(self.crowd.members.rules.subset([k - 1 for k in open_ if k]), most_atoms=0)
        buckets = buckets_for(members, self.runner.rows, limits)
        if buckets < 2 * before:
            return None
        state: CrowdState = self.runner.run(CrowdPass(self.door, members, KeyMap.fitted(self.scores, buckets)))
        return Crowd(members, state)

    def _affordable(self, open_: list[int], numbers: dict[int, int], budget: int) -> list[int]:
        """Contenders first, then the others by size, as long as there is budget."""
        low = {k: track.range * self.scale[k] for k, track in self.tracks.items()}
        others = [k for k, track in self.tracks.items() if k in numbers and k not in open_]
        chosen = []
        for k in [*open_, *sorted(others, key=lambda k: (-low[k], k))]:
            rows = self._rows([k])
            if 0 < rows <= budget:
                budget -= rows
                chosen.append(k)
        return chosen

    def _pull(self, crowd: Crowd, chosen: dict[int, int]) -> None:
        members, buckets = crowd.members, crowd.state.job.score.count
        wanted = np.zeros((members.cells, buckets), bool)
        for k, number in chosen.items():
            track = self.tracks[k]
            wanted[np.ix_(np.flatnonzero(members.union(number)), track.bucket[track.needed])] = True
        asked = members if members.by_atoms else replace(members, wanted=tuple(sorted(chosen.values())))
        job = PullPass(self.door, asked, crowd.state.job.score, np.packbits(wanted, axis=1))
        state: PullState = self.runner.run(job)
        if int(state.rows[0]) != int(crowd.state.rows[0]):
            got = f"{int(state.rows[0]):,} rows, before {int(crowd.state.rows[0]):,}"
            hint = "a file that is still written, or a frame that draws its rows at random? store it first"
            raise refusal("changed between two passes", where=self.runner.words, got=got, hint=hint)
        self._settle(crowd, chosen, state.lists.arrays())

    def _settle(self, crowd: Crowd, chosen: dict[int, int], pulled: dict[str, np.ndarray]) -> None:
        if not pulled:
            return
        members = crowd.members
        order = np.argsort(pulled["cell"], kind="stable")
        rows = {name: values[order] for name, values in pulled.items()}
        starts = np.searchsorted(rows["cell"], np.arange(members.cells + 1))
        for k, number in chosen.items():
            track = self.tracks[k]
            needed = np.zeros(int(track.bucket.max(initial=0)) + 1, bool)
            needed[track.bucket[track.needed]] = True
            places = np.concatenate(
                [np.arange(starts[c], starts[c + 1]) for c in np.flatnonzero(members.union(number))]
            )
            bucket = rows["bucket"][places]
            places = places[(bucket < needed.size) & needed[np.minimum(bucket, needed.size - 1)]]
            first = rows["first"][places] if "first" in rows else None
            taken = rows["bucket"][places], rows["score"][places], rows["observed"][places]
            track.settle(*taken, first, crowd.limbs(number))
