"""Multi-calibration by gradient boosting on the logit, stopped by held-out loss."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from miscal.data.columns import Columns
from miscal.recalibrate import parameters
from miscal.recalibrate.base import Array, Floats, Recalibrator, Sample, as_rows, normalised, pairs
from miscal.recalibrate.boosting import Forest, check_forest, chosen_engine, grow_trees, log_losses, sigmoid
from miscal.recalibrate.state import Field, label_array
from miscal.recalibrate.tables import chosen_names
from miscal.recalibrate.tree import Coding, Integers, coded

EDGE = 1e-7  # probabilities are held within [EDGE, 1 - EDGE] before the logit
MOST_ROUNDS = 40
PATIENCE = 2
FOLDS = 5
FOLD_ROWS = 200_000  # beyond it one held-out fifth is enough


def logits(probability: Floats) -> Floats:
    """Log-odds, finite."""
    held = np.clip(probability, EDGE, 1.0 - EDGE)
    return np.asarray(np.log(held) - np.log1p(-held))


class _Boosted:
    """Rounds of trees on coded columns and the current logit, each followed by a scale."""

    def __init__(self) -> None:
        self.forest = Forest()
        self.ends: list[int] = []
        self.scales: list[float] = []

    def grow(self, engine: str, numbers: Floats, sample: _Rows, logit: Floats, seed: int) -> Floats:
        """One more round; the new logit of the rows."""
        grown = grow_trees(engine, np.vstack([numbers, logit]), sample.outcome, sample.weight, logit, seed)
        base = len(self.forest.left)
        for name in ("column", "threshold", "value"):
            getattr(self.forest, name).extend(getattr(grown, name))
        for name in ("left", "right"):
            getattr(self.forest, name).extend(c + base if c >= 0 else -1 for c in getattr(grown, name))
        self.forest.roots.extend(root + base for root in grown.roots)
        self.ends.append(len(self.forest.roots))
        self.scales.append(1.0)
        new = self.advance(numbers, logit, len(self.ends) - 1)
        self.scales[-1] = best_scale(new, sample.outcome, sample.weight)
        return new * self.scales[-1]

    def advance(self, numbers: Floats, logit: Floats, which: int) -> Floats:
        """The logit after a round."""
        arrays = self.forest.arrays()
        return advanced(arrays, np.array(self.ends), np.array(self.scales), numbers, logit, which)


def advanced(
    arrays: dict[str, Any], ends: Integers, scales: Floats, numbers: Floats, logit: Floats, which: int
) -> Floats:
    """Add the trees of one round to the logit and scale it."""
    from miscal.kernels.forest import add_trees

    features, result = np.vstack([numbers, logit]), logit.copy()
    first = int(ends[which - 1]) if which else 0
    nodes = tuple(arrays[name] for name in ("column", "threshold", "left", "right", "value", "roots"))
    add_trees(features, *nodes, first, int(ends[which]), result)
    return np.asarray(result * scales[which])


class _Rows:
    """Outcomes and weights of the rows to learn from."""

    def __init__(self, outcome: Floats, weight: Floats) -> None:
        self.outcome, self.weight = outcome, weight

    def take(self, rows: Array) -> _Rows:
        """Some of them."""
        return _Rows(self.outcome[rows], self.weight[rows])


def best_scale(logit: Floats, outcome: Floats, weight: Floats) -> float:
    """The factor of the logit with the least log loss, between 1/2 and 2 (Newton's method)."""
    scale = 1.0
    for _ in range(20):
        probability = sigmoid(scale * logit)
        slope = float(np.sum(weight * (probability - outcome) * logit))
        bend = float(np.sum(weight * probability * (1.0 - probability) * logit * logit))
        if bend <= 0.0:
            break
        step = slope / bend
        scale = min(max(scale - step, 0.5), 2.0)
        if abs(step) < 1e-10:
            break
    return scale


class MulticalibrationBoost(Recalibrator):
    """Gradient boosting on the logit, with the score as a feature and as the offset (after Tax and others, MCGrad).

    Each round grows 25 small trees (8 leaves, learning rate .1) on the columns and the current logit, starting from the
    current logit, and rescales the result by the factor of least log loss. The number of rounds is that of the least
    held-out log loss over 5 folds; none at all unless it beats leaving the scores alone by more than one standard error
    of the paired differences, so that a calibrated model is left as it is. Does not keep the ranking.

    Levels of a category are ordered by the mean of outcome - score; missing is a level; levels not seen in fit go with
    the commonest. Several classes: each against the rest, rows divided by their sums.

    Parameters
    ----------
    rounds : "auto" or int
        How many rounds of trees; a number is used as it is, without looking at held-out rows.
    engine : {"auto", "lightgbm", "sklearn"}
        Who grows the trees; "auto": LightGBM where it is installed. What is learned is kept as plain arrays, so
        predictions and JSON need neither.
    random_state : int
        Of the folds.

    Attributes
    ----------
    rounds_ : int
    gain_ : float
        Held-out log loss saved a row against leaving the scores alone; NaN is 0 where rounds were given.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.integers(20, 80, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(age < 50, y_prob**2, y_prob)
    >>> fixed = MulticalibrationBoost().fit(y_prob, y, {"age": age})
    >>> fixed.predict_proba([0.5, 0.5], {"age": [30, 70]})[:, 1].round(1)
    array([0.3, 0.5])
    """

    uses_columns: ClassVar[bool] = True
    fields: ClassVar[dict[str, Field]] = {
        "names_": Field("labels"),
        "nominal_": Field("bool", ("any",)),
        "levels_": Field("levels"),
        "ranges_": Field("float", ("any", 2)),
        "rounds_": Field("int", (), 0),
        "gain_": Field("float"),
        "scales_": Field("float", ("any",), 0.0),
        "ends_": Field("int", ("any",), 0),
        "node_column_": Field("int", ("any",), 0),
        "node_threshold_": Field("float", ("any",)),
        "node_left_": Field("int", ("any",), -1),
        "node_right_": Field("int", ("any",), -1),
        "node_value_": Field("float", ("any",)),
        "roots_": Field("int", ("any",), 0),
        "inner_": Field("inner"),
    }

    names_: Array
    nominal_: Array
    levels_: list[list[Any]]
    ranges_: Floats
    rounds_: int
    gain_: float
    scales_: Floats
    ends_: Integers
    node_column_: Integers
    node_threshold_: Floats
    node_left_: Integers
    node_right_: Integers
    node_value_: Floats
    roots_: Integers
    inner_: list[Recalibrator | None]

    def __init__(self, rounds: Any = "auto", engine: str = "auto", random_state: int = 0) -> None:
        self.rounds = rounds
        self.engine = engine
        self.random_state = random_state

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        if self.rounds != "auto":
            parameters.whole("rounds", self.rounds, 0, 10_000)
        parameters.one_of("engine", self.engine, ("auto", "lightgbm", "sklearn"))
        parameters.whole("random_state", self.random_state, 0, 2**31 - 1)

    def check_state(self) -> None:
        """Refuse trees that are none."""
        count = len(self.names_)
        if not (len(self.nominal_) == len(self.levels_) == len(self.ranges_) == count):
            raise ValueError("the columns differ in number")
        if not (len(self.scales_) == len(self.ends_) == self.rounds_):
            raise ValueError("the rounds differ in number")
        ordered = np.concatenate([[0], self.ends_])
        if (np.diff(ordered) < 0).any() or int(ordered[-1]) != len(self.roots_):
            raise ValueError("the trees of the rounds do not follow one another")
        nodes = (self.node_column_, self.node_threshold_, self.node_left_, self.node_right_, self.node_value_)
        check_forest((*nodes, self.roots_), count + 1)
        wanted = 0 if self.n_classes_ == 2 else self.n_classes_
        if len(self.inner_) != wanted:
            raise ValueError("there must be one map a class")
        for inner in self.inner_:
            if not isinstance(inner, MulticalibrationBoost) or not inner.is_fitted() or inner.n_classes_ != 2:
                raise ValueError("the map of a class must be a fitted MulticalibrationBoost of two classes")

    def _fit(self, sample: Sample) -> None:
        names = chosen_names(sample.columns, None)
        if sample.n_classes > 2:
            self._fit_classes(sample)
            return
        weight = np.ones(sample.rows) if sample.weight is None else sample.weight * sample.rows / sample.total
        outcome = sample.outcome.astype(np.float64)
        residual = outcome - sample.probability
        codings = [coded(sample.columns.find(name), residual, weight) for name in names]
        numbers = finite_numbers(codings, sample.columns)
        rows, logit = _Rows(outcome, weight), logits(sample.probability)
        engine = chosen_engine(self.engine)
        self.gain_ = 0.0
        rounds = self.rounds if self.rounds != "auto" else self._chosen_rounds(engine, numbers, rows, logit)
        boosted = _Boosted()
        for _ in range(int(rounds)):
            logit = boosted.grow(engine, numbers, rows, logit, int(self.random_state))
        self._keep(codings, boosted)

    def _keep(self, codings: list[Coding], boosted: _Boosted) -> None:
        self.names_ = label_array([coding.name for coding in codings])
        self.nominal_ = np.array([coding.nominal for coding in codings], dtype=np.bool_)
        self.levels_ = [coding.levels for coding in codings]
        self.ranges_ = np.array([[coding.low, coding.high] for coding in codings]).reshape(-1, 2)
        self.rounds_ = len(boosted.ends)
        self.scales_ = np.array(boosted.scales, dtype=np.float64)
        self.ends_ = np.array(boosted.ends, dtype=np.int64)
        for name, values in boosted.forest.arrays().items():
            setattr(self, "roots_" if name == "roots" else f"node_{name}_", values)
        self.inner_ = []

    def _fit_classes(self, sample: Sample) -> None:
        """Each class against the rest, by maps of their own."""
        made: list[MulticalibrationBoost] = []
        columns = {name: sample.columns[name] for name in sample.columns}
        for k in range(sample.n_classes):
            one = MulticalibrationBoost(self.rounds, self.engine, self.random_state)
            outcome = (sample.outcome == k).astype(np.int64)
            some = 0 < outcome.sum() < sample.rows
            one.rounds = self.rounds if some else 0
            flat = np.ascontiguousarray(sample.probability[:, k])
            one._fit(Sample(flat, outcome, sample.weight, Columns(columns), 2))
            one.rounds = self.rounds
            one.classes_, one.identity_, one.n_rows_ = np.array([0, 1]), False, sample.rows
            made.append(one)
        self._keep(made[0]._codings(), _Boosted())  # noqa: SLF001
        self.gain_ = 0.0
        self.inner_ = list(made)

    def _chosen_rounds(self, engine: str, numbers: Floats, rows: _Rows, logit: Floats) -> int:
        """The number of rounds with the least held-out loss, 0 unless that is clearly less than the scores' own."""
        size = logit.size
        place = np.random.default_rng(self.random_state).permutation(size) % FOLDS
        own = log_losses(logit, rows.outcome)
        folds = range(FOLDS if size <= FOLD_ROWS else 1)
        held = [np.flatnonzero(place == fold) for fold in folds]
        if min(len(part) for part in held) == 0 or size < 2 * FOLDS:
            return 0
        kept = [np.flatnonzero(place != fold) for fold in folds]
        models = [_Boosted() for _ in folds]
        inside = [logit[part] for part in kept]
        outside = [logit[part] for part in held]
        every = np.concatenate(held)
        best, best_loss, best_saved = 0, 0.0, np.zeros(every.size)
        for done in range(1, MOST_ROUNDS + 1):
            for f in folds:
                inside[f] = models[f].grow(engine, numbers[:, kept[f]], rows.take(kept[f]), inside[f], 0)
                outside[f] = models[f].advance(numbers[:, held[f]], outside[f], done - 1)
            losses = np.concatenate([log_losses(outside[f], rows.outcome[held[f]]) for f in folds])
            saved = own[every] - losses
            mean = float(np.average(saved, weights=rows.weight[every]))
            if mean > best_loss:
                best, best_loss, best_saved = done, mean, saved
            if done - best >= PATIENCE:
                break
        if best and best_loss > standard_error(best_saved, rows.weight[every]):
            self.gain_ = best_loss
            return best
        return 0

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        if self.inner_:
            single = [
                one._map_beside(np.ascontiguousarray(probability[:, k]), columns)[:, 1]  # noqa: SLF001
                for k, one in enumerate(self.inner_)
                if isinstance(one, MulticalibrationBoost)
            ]
            return normalised(np.stack(single, axis=1), probability)
        if not self.rounds_:
            return as_rows(probability)
        numbers = finite_numbers(self._codings(), columns)
        arrays = {name: getattr(self, f"node_{name}_") for name in ("column", "threshold", "left", "right", "value")}
        arrays["roots"] = self.roots_
        logit = logits(probability)
        for which in range(self.rounds_):
            logit = advanced(arrays, self.ends_, self.scales_, numbers, logit, which)
        return pairs(sigmoid(logit))

    def _codings(self) -> list[Coding]:
        described = zip(self.names_, self.nominal_, self.levels_, self.ranges_, strict=True)
        return [Coding(str(n), bool(c), levels, float(r[0]), float(r[1])) for n, c, levels, r in described]

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and not self.inner_ and self.rounds_ == 0

    def _summary(self) -> str:
        if self.inner_:
            return f"one map for each of {len(self.inner_)} classes"
        if not self.rounds_:
            return "held-out loss would not improve, so nothing was changed"
        saved = f", saving {self.gain_:.2g} of held-out log loss a row" if self.gain_ else ""
        return f"{self.rounds_} rounds of trees{saved}"


def finite_numbers(codings: list[Coding], columns: Columns) -> Floats:
    """The columns as numbers (columns, n); a missing number comes after the largest."""
    made = [coding.numbers(columns) for coding in codings]
    beyond = [coding.high + 1.0 + abs(coding.high) for coding in codings]
    return np.stack([np.where(np.isinf(values), far, values) for values, far in zip(made, beyond, strict=True)])


def standard_error(values: Floats, weight: Floats) -> float:
    """Standard error of a weighted mean."""
    mean = np.average(values, weights=weight)
    return math.sqrt(float(np.sum(weight**2 * (values - mean) ** 2))) / float(weight.sum())
