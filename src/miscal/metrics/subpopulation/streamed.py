"""Multi-calibration of a table that is read in parts: the same numbers from sums, without its rows in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.data.errors import check_named, refusal
from miscal.engines.crowd_search import BUDGET, Limits, Settling, crowd_of, score_sample
from miscal.engines.crowd_walks import Crowd, Track
from miscal.engines.rows import Door
from miscal.engines.runners import restarted, runner_for, sums_bytes
from miscal.engines.sampling import plain_text
from miscal.engines.subpopulations import Lists, Ordered, Search, information
from miscal.inference.subpopulation import (
    LARGEST,
    LIMIT,
    MaximumNoise,
    bonferroni_noise,
    noise_scales,
    scaled_errors,
)
from miscal.metrics.subpopulation.result import (
    SubpopulationResult,
    _asked_words,
    _result,
    _silent,
    by_subpopulation,
)
from miscal.metrics.subpopulation.sampled import generated, is_generator
from miscal.pooling.slots import compiled
from miscal.pooling.subpopulations import Definition, check_count
from miscal.results import Table

MOST_PASSES = 4
LEAST_DRAWS = 199  # a table is loaded only where so many simulations of its rows could be made


def subpopulations_in_parts(
    source: Any,
    columns: str | Sequence[str] | None = None,
    *,
    outcome: str,
    probability: Any,
    weight: str | None = None,
    count: str | None = None,
    memory: Any = None,
    subpopulations: Any = 1000,
    simulations: int = 999,
    min_size: int = 10,
    min_information: float = 5.0,
    nominal: Any = None,
    statistic: str = "range",
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: Any = 0,
    row_budget: int = BUDGET,
    emphasis: str | None = None,
    rho: float = 0.01,  # noqa: ARG001  # a spec carries them, but only emphasis uses them
    regularise: str = "max",  # noqa: ARG001
    **options: Any,
) -> SubpopulationResult:
    """As `by_subpopulation` for a path (a file, a folder, a pattern), a lazy frame or a Spark DataFrame.

    Subpopulations are expressions, or are generated from a sample of rows that the settings state. A pass adds the
    residuals of every subpopulation by bucket of the score; a further one pulls the rows that decide which is worst, at
    most `row_budget` of them. Where that is too few, ``extra["at_most"]`` is what the value can be at most, and the
    table's column ``short_by`` by how much each ``scaled`` may be too small. Tables small enough for simulation are
    loaded (never from Spark), with the result of `by_subpopulation`; else p-values are Bonferroni's over the Brownian
    range.

    Parameters
    ----------
    source, outcome, probability, weight, count, options : as in `miscal.read`, names of columns
    columns : what subpopulations are generated from; None: all that have an order or at most 1,000 levels
    memory : ceiling, such as "600MB"
    subpopulations : a number, `RandomPaths`, `Conjunctions`, or expressions (one, a list, or a mapping of names)
    simulations, min_size, min_information, nominal, statistic, target, null, random_state
        As in `by_subpopulation`; `min_size` is the fewest rows of the sample.
    """
    if emphasis is not None:
        raise refusal("needs the rows in memory", where="'emphasis'", got=f"got {emphasis!r}", hint="load a sample")
    draws, least = check_count("simulations", simulations, 0), check_count("min_size", min_size, 1)
    if statistic not in ("range", "mean"):
        raise refusal("must be 'range' or 'mean'", where="'statistic'", got=f"got {statistic!r}")
    runner = runner_for(source, memory)
    door = Door(outcome, probability, weight, count, target=target, **options)
    limits = Limits(sums_bytes(runner, memory), row_budget, MOST_PASSES)
    chosen = {
        "simulations": draws,
        "min_size": least,
        "min_information": float(min_information),
        "statistic": statistic,
    }
    more = {"nominal": nominal, "null": null, "random_state": random_state, "target": target}
    return restarted(runner, lambda: _Asked(runner, door, columns, subpopulations, chosen | more).measured(limits))


@dataclass(eq=False)
class _Asked:
    """What a call is about: the runner, the door, the columns and the subpopulations asked for."""

    runner: Any
    door: Door
    columns: str | Sequence[str] | None
    subpopulations: Any
    options: dict[str, Any]
    target: str = "positive"

    def __post_init__(self) -> None:
        known = [name for name in self.kinds if name not in self.door.columns]
        check_named([*self.door.columns, *self._given], self.kinds, self.runner.words, known)
        self.names = self._given or known
        self.runner.check([*self.door.columns, *self._given])

    def measured(self, limits: Limits) -> SubpopulationResult:
        """The result: from all rows where they are few, from sums else."""
        options = self.options
        if self._few(self.runner.rows):
            return self._in_memory()
        expressions, stated, scores = self.expressions(options["nominal"], options["min_size"], options["random_state"])
        rules = compiled(list(expressions.values()), self.kinds)
        crowd = crowd_of(self.runner, self.door, rules, scores, limits)
        if self._few(int(crowd.state.rows[0])):
            return self._in_memory()
        if not is_generator(self.subpopulations):
            _check_levels(crowd)
        found = Found(crowd, list(expressions), options["min_information"])
        if options["statistic"] == "range":
            found.settle(Settling(self.runner, self.door, crowd, found.scale(), scores).run(limits))
        state = options["random_state"]
        settings = {
            "columns": self.names, "subpopulations": _asked_words(self.subpopulations), "emphasis": None, **stated,
            **{name: options[name] for name in ("simulations", "min_size", "min_information", "statistic")},
            "passes": self.runner.passes, "random_state": state if isinstance(state, int) else None,
        }  # fmt: skip
        return found.result(
            settings, options["statistic"], options["simulations"],
            residual=options["null"] == "residual" or crowd.state.outcome_weights,
            expressions=expressions, target=self.target,
        )  # fmt: skip

    def _few(self, rows: int | None) -> bool:
        """Whether all rows are loaded, because simulations are made from rows."""
        draws = max(self.options["simulations"], LEAST_DRAWS)
        return hasattr(self.runner, "batches") and rows is not None and rows * draws <= LIMIT

    def _in_memory(self) -> SubpopulationResult:
        return by_subpopulation(self.loaded(), self.names, subpopulations=self.subpopulations, **self.options)

    @property
    def kinds(self) -> dict[str, str]:
        return {name: kind for name, kind in self.runner.kinds.items() if kind}

    @property
    def _given(self) -> list[str]:
        return [self.columns] if isinstance(self.columns, str) else list(self.columns or ())

    def expressions(self, nominal: Any, least: int, state: Any) -> tuple[dict[str, str], dict[str, Any], np.ndarray]:
        """Expressions by name, what the settings say of them, and a sample of scores."""
        if is_generator(self.subpopulations):
            batches, scores = score_sample(self.runner, self.door, self.names)
            self._named(batches)
            made, self.names = generated(
                batches, self.names, self._given, self.kinds, self.subpopulations, nominal, least, state
            )
            expressions = {name: one.words() for name, one in made.items()}
            return expressions, {"sample_rows": int(scores.size)}, scores
        batches, scores = score_sample(self.runner, self.door)
        self._named(batches)
        return given(self.subpopulations), {}, scores

    def _named(self, batches: list[Any]) -> None:
        self.target = batches[0].pair.target if batches else str(self.door.target)

    def loaded(self) -> Any:
        """The whole table, its needed columns alone."""
        import pyarrow as pa

        from miscal.data.sources import read

        names = list(dict.fromkeys([*self.door.columns, *self.names]))
        self.runner.check(names)
        batches = self.runner.batches
        tables = [plain_text(chunk.table) for part in range(batches.parts) for chunk in batches.read(part, names)]
        if not tables:
            raise refusal("must have at least one row", where=self.runner.words, got="it is empty")
        door = self.door
        return read(
            pa.concat_tables(tables, promote_options="permissive"), outcome=door.outcome, probability=door.probability,
            weight=door.weight, count=door.count, positive=door.positive, logit=door.logit, clip=door.clip,
            columns=self.names,
        )  # fmt: skip


def given(subpopulations: Any) -> dict[str, str]:
    """Expressions by name."""
    if isinstance(subpopulations, str):
        return {subpopulations: subpopulations}
    if isinstance(subpopulations, Mapping):
        items = {str(name): text for name, text in subpopulations.items()}
    elif isinstance(subpopulations, (list, tuple)):
        items = {str(text): text for text in subpopulations}
    else:
        items = {"": subpopulations}
    for text in items.values():
        if not isinstance(text, str):
            raise refusal(
                "must be expressions, a number, RandomPaths or Conjunctions where a table is read in parts",
                where="'subpopulations'", got=f"got {type(text).__name__}", hint='such as "age < 31 and state = CA"',
            )  # fmt: skip
    return items


def _check_levels(crowd: Crowd) -> None:
    missing = crowd.state.unseen()
    if missing is not None:
        where = f"a level that 'subpopulations' names, of column {missing[0]!r}"
        raise refusal("must occur in the table", where=where, got=f"no row has {missing[1]!r}")


def _no_lists(chosen: np.ndarray) -> Lists:
    raise refusal("are not in memory", where=f"the rows of {chosen.size} subpopulations", got="the table is a stream")


class Found:
    """Subpopulations of a crowd, equal ones merged, those with too little information apart."""

    def __init__(self, crowd: Crowd, names: list[str], least: float) -> None:
        from miscal.kernels.subpopulation import WIDTH

        self.crowd = crowd
        self.definitions = [Definition(), *(Definition(given=name) for name in names)]
        marks: dict[int, int] = {}
        for k in range(crowd.members.count):
            marks.setdefault(crowd.mark(k), k)
        kept = sorted(marks.values())
        stats = np.zeros((len(kept), WIDTH))
        self.residual2 = np.zeros(len(kept))
        self.at = np.full((len(kept), 2), math.nan)
        for place, k in enumerate(kept):
            self.residual2[place] = self._fill(stats[place], k)
        enough = information(stats) >= least
        enough[0] = True
        self.numbers, self.small = np.array(kept)[enough], np.array(kept)[~enough]
        self.stats, self.too_small = stats[enough], stats[~enough]
        self.residual2, self.at = self.residual2[enough], self.at[enough]
        self.short = np.zeros(self.numbers.size)

    def _fill(self, row: np.ndarray, k: int) -> float:
        from miscal.kernels.subpopulation import PREDICTED, ROWS, TOP, TOTAL, VARIANCE, WEIGHT, WEIGHT2

        row[[ROWS, WEIGHT, WEIGHT2, PREDICTED, VARIANCE]] = (found := self.crowd.stats(k))[:5]
        row[TOP] = found[6]
        track = self.crowd.track(k)
        row[TOTAL] = track.end[-1] if track.end.size else 0.0
        return found[5]

    def scale(self) -> np.ndarray:
        """What the range of each subpopulation is multiplied by; 0 for those that are not measured."""
        found = np.zeros(self.crowd.members.count)
        found[self.numbers] = noise_scales(self.stats)
        return found

    def settle(self, tracks: dict[int, Track]) -> None:
        """Take in the walks."""
        from miscal.kernels.subpopulation import HIGH, LOW

        scale = noise_scales(self.stats)
        for place, k in enumerate(self.numbers.tolist()):
            track = tracks[k] if k in tracks else self.crowd.track(k)
            self.stats[place, HIGH], self.stats[place, LOW] = track.highest, track.lowest
            self.at[place] = track.highest_at, track.lowest_at
            self.short[place] = 0.0 if track.exact else (track.most - track.range) * scale[place]

    def ordered(self) -> Ordered:
        """Scores that stand in for rows: positions in `stats` point at them."""
        from miscal.kernels.subpopulation import HIGH_AT, LOW_AT

        spans = self.crowd.state.spans
        lowest = float(spans[:, 0].min())
        known = self.at[~np.isnan(self.at)]
        scores = np.unique(np.append(known, lowest))
        for column, place in ((HIGH_AT, 0), (LOW_AT, 1)):
            self.stats[:, column] = np.where(
                np.isnan(self.at[:, place]), -1, np.searchsorted(scores, np.nan_to_num(self.at[:, place], nan=lowest))
            )
        weighted = bool((self.stats[:, 4] != self.stats[:, 0]).any())
        return Ordered(np.arange(scores.size), scores, weight=np.ones(scores.size) if weighted else np.empty(0))

    def noise(self, values: np.ndarray, statistic: str, draws: int, *, residual: bool) -> MaximumNoise:
        """Bonferroni's inequality; with sign flips the spread of the residuals stands in for that of the outcomes."""
        from miscal.kernels.subpopulation import VARIANCE

        if draws == 0:
            return _silent(values, "no simulations were asked for")
        if not residual:
            return bonferroni_noise(self.stats, np.minimum(values, LARGEST), statistic)
        stats = self.stats.copy()
        stats[:, VARIANCE] = self.residual2
        found = bonferroni_noise(stats, np.minimum(scaled_errors(stats, statistic), LARGEST), statistic)
        words = "Sign-flip null: the spread of the residuals in place of that of the outcomes. "
        return replace(found, method=words + found.method)

    def result(
        self, settings: dict[str, Any], statistic: str, draws: int, *, residual: bool, expressions: dict[str, str],
        target: str,
    ) -> SubpopulationResult:  # fmt: skip
        """The result."""
        values = scaled_errors(self.stats, statistic)
        noise = self.noise(values, statistic, draws, residual=residual)
        search = Search(
            self.stats, self.too_small,
            lambda k: self.definitions[self.numbers[k]], lambda k: self.definitions[self.small[k]],
            _no_lists,
        )  # fmt: skip
        most = float(np.max(values + self.short))
        exact = most <= float(values.max()) * (1.0 + 1e-12)
        settings = settings | {
            "null": "residual" if residual else "bernoulli",
            "target": target,
            "draws": 0,
            "exact": exact,
        }
        made = _result(
            self.ordered(), search, values, noise, settings, noise.method + self._words(settings), self._curves
        )
        order = np.argsort(-values, kind="stable")
        extra = {
            "at_most": max(most, float(values.max())),
            "names": list(expressions),
            "expressions": list(expressions.values()),
        }
        return replace(made, table=Table({**made.table, "short_by": self.short[order]}), extra={**made.extra, **extra})

    def _words(self, settings: dict[str, Any]) -> str:
        made = f" Read in parts, {settings['passes']} passes."
        if "sample_rows" in settings:
            made += f" The subpopulations were generated from a sample of {settings['sample_rows']:,} rows."
        if not settings["exact"]:
            made += " More rows than the budget could hold an extreme: errors are bounds from below (short_by)."
        return made

    def _curves(self, worst: np.ndarray) -> list[dict[str, Any]]:
        chosen = list(dict.fromkeys([0, *worst.tolist()]))[: max(worst.size, 1)]
        return [
            {"label": self.definitions[self.numbers[k]].name, **self.crowd.curve(int(self.numbers[k]))} for k in chosen
        ]
