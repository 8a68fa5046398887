"""Multi-calibration by gradient boosting on the logit, stopped by held-out loss; its trees are one table of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from miscal.data.checks import one_of, truth, whole
from miscal.data.columns import Column, Columns
from miscal.data.errors import MissingExtra
from miscal.data.responses import RESPONSES
from miscal.data.vectors import Floats, Integers
from miscal.kernels.logistic import add_trees
from miscal.pooling.columns import Encoding
from miscal.recalibrate.base import Recalibrator, as_rows, pairs
from miscal.recalibrate.by_columns.variable_tree import CutColumns, Tree, coded, cut_columns, cut_numbers
from miscal.recalibrate.declared import Field, chosen_names, parameter, state
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.logistic import State, minimise, residuals
from miscal.recalibrate.sample import Family, Sample

MOST_ROUNDS = 40
PATIENCE = 2
FOLDS = 5
FOLD_ROWS = 200_000  # beyond it one held-out fifth is enough
ONE_SIDED = 1.6448536269514722
PRIOR = 30.0  # rows that the mean of all rows counts for where levels are ordered
TREES = 25  # trees a round, after which the score among the features is the new one
LEARNING_RATE = 0.1
L2 = 5.0
BINS = 255
MANY = 200_000  # rows from which several threads pay: below it they mostly wait for one another
HESSIAN = 5.0  # least sum of the second derivatives in a leaf: of p(1 - p), of expected counts, of rows
BEND = 1e-6  # least second derivative that a row is divided by
Rows = tuple[Floats, Floats, Floats, Floats]  # features (columns, n), outcome, weight, and the link to start from
Trees = Iterator[tuple[Any, Callable[[Any], Any]]]  # each with what reads a node: a leaf's value, or a cut and children


class _Boosted:
    """Rounds of trees on coded columns and the current logit, each followed by a scale."""

    def __init__(self, sample: Sample, grower: Callable[..., Trees], start: float | None, rescale: bool) -> None:
        self.rescale, self.family = rescale, sample.family
        weight = sample.weights * (1.0 if sample.response == "count" else sample.rows / sample.total)
        self.outcome, self.weight, self.grower = sample.outcome.astype(np.float64), weight, grower
        given = sample.probability if start is None else np.full(sample.rows, sample.rate)
        looked = self.family.target(given, self.outcome, weight)
        names = chosen_names(sample.columns, None)
        self.encodings = [coded(sample.columns.find(name), *looked, PRIOR) for name in names]
        self.numbers, self.logit = _begin(self.encodings, sample.columns, sample.probability, start, self.family)
        self.table: list[list[float]] = []  # of each node column, threshold, left, right and value
        self.roots: list[int] = []  # where each tree starts
        self.ends: list[int] = []
        self.scales: list[float] = []

    def grow(self) -> None:
        """One more round."""
        features = np.vstack([self.numbers, self.logit])
        for nodes_of_tree in self.grower((features, self.outcome, self.weight, self.logit), self.family):
            self.roots.append(len(self.table))
            _append(self.table, *nodes_of_tree)
        self.ends.append(len(self.roots))
        self.scales.append(1.0)
        new = self.advance(self.numbers, self.logit)
        self.scales[-1] = best_scale(new, self.outcome, self.weight) if self.rescale else 1.0
        self.logit = new * self.scales[-1]

    def trees(self) -> tuple[Tree, Floats, Integers]:
        """The nodes, the values of the leaves, and the roots."""
        table = np.array(self.table, dtype=np.float64).reshape(-1, 5).T.copy()
        column, left, right = table[[0, 2, 3]].astype(np.int64)
        return Tree(column, table[1], left, right), table[4], np.array(self.roots, dtype=np.int64)

    def advance(self, numbers: Floats, logits: Floats) -> Floats:
        """The logit of rows after the last round."""
        first = self.ends[-2] if len(self.ends) > 1 else 0
        return advanced(self.trees(), first, self.ends[-1], numbers, logits) * self.scales[-1]


def _append(table: list[list[float]], node: Any, read: Callable[[Any], Any]) -> None:
    """Append a node and those below it; `read(node)` gives (column, threshold, left, right) or a leaf's value."""
    found = read(node)
    if not isinstance(found, tuple):
        table.append([0, 0.0, -1, -1, found])
        return
    made = [*found[:2], -1, -1, 0.0]
    table.append(made)
    for side in (2, 3):
        made[side] = len(table)
        _append(table, found[side], read)


def advanced(trees: tuple[Tree, Floats, Integers], first: int, last: int, numbers: Floats, logits: Floats) -> Floats:
    """Add trees first .. last - 1 to the logit."""
    result = logits.copy()
    tree, value, roots = trees
    add_trees(np.vstack([numbers, logits]), *tree, value, roots, first, last, result)
    return result


def best_scale(logits: Floats, outcome: Floats, weight: Floats) -> float:
    """The factor of the logit with the least log loss, between 1/2 and 2."""

    def evaluate(scale: Floats) -> State:
        loss, off, bend = residuals(scale * logits, outcome, weight)
        return float(weight @ loss), np.array([off @ logits]), np.array([[bend @ (logits * logits)]])

    found, _ = minimise(evaluate, np.ones(1), np.zeros(1), float(weight.sum()), np.ones(1, bool))
    return float(np.clip(found[0], 0.5, 2.0))


def grower(engine: str) -> Callable[..., Trees]:
    """The function that grows trees: by LightGBM where it is installed, unless one is named."""
    installed = find_spec("lightgbm") is not None
    if engine == "lightgbm" and not installed:
        raise MissingExtra("MulticalibrationBoost(engine='lightgbm')", "lightgbm", "boost")
    return by_lightgbm if installed and engine != "sklearn" else by_sklearn


def by_lightgbm(rows: Rows, family: Family, *, leaves: int, min_rows: int, seed: int) -> Trees:
    """Grow one round of trees on rows."""
    import lightgbm

    features, outcome, weight, offset = rows
    options = {
        "objective": family.objective, "poisson_max_delta_step": 1e-9, "learning_rate": LEARNING_RATE,
        "num_leaves": leaves, "lambda_l2": L2,
        "min_sum_hessian_in_leaf": HESSIAN, "min_data_in_leaf": min_rows, "use_missing": False,
        "boost_from_average": False, "deterministic": True, "force_col_wise": True, "seed": seed,
        "verbosity": -1, "feature_pre_filter": False, "num_threads": 1 if outcome.size < MANY else 0,
    }  # fmt: skip
    data = lightgbm.Dataset(features.T, outcome, weight=weight, init_score=offset, params=options)
    grown = lightgbm.train(options, data, num_boost_round=TREES).dump_model()

    def read(node: dict[str, Any]) -> Any:
        if "leaf_value" in node:
            return node["leaf_value"]
        return node["split_feature"], node["threshold"], node["left_child"], node["right_child"]

    for tree in grown["tree_info"]:
        yield tree["tree_structure"], read


def by_sklearn(rows: Rows, family: Family, *, leaves: int, min_rows: int, seed: int) -> Trees:
    """As `by_lightgbm`, by Newton steps: trees of residual / bend with weights bend (of two classes p(1 - p)).

    A column has at most 255 bins.
    `HistGradientBoostingClassifier` takes no offset, so its two ideas, bins and Newton steps, are used one by one.
    """
    from sklearn.tree import DecisionTreeRegressor

    features, outcome, weight, offset = rows
    edges = [_edges(values) for values in features]
    codes = np.stack([np.searchsorted(e, v, side="left") for e, v in zip(edges, features, strict=True)], axis=1)
    codes = codes.astype(np.float32)
    link = offset.copy()
    for _ in range(TREES):
        mean = family.mean(link)
        curvature = np.maximum(family.bend(mean), BEND)
        regression = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=min_rows, random_state=seed)
        regression.fit(codes, (outcome - mean) / curvature, sample_weight=weight * curvature)
        tree, place = regression.tree_, regression.apply(codes)
        mass = np.bincount(place, weight * curvature, tree.node_count)
        step = np.bincount(place, weight * (outcome - mean), tree.node_count) / (mass + L2)
        step[mass < HESSIAN] = 0.0
        link += LEARNING_RATE * step[place]

        def read(node: int, tree: Any = tree, step: Floats = step) -> Any:
            if tree.children_left[node] < 0:
                return LEARNING_RATE * step[node]
            column = int(tree.feature[node])
            cut = edges[column][int(np.floor(tree.threshold[node]))]  # codes up to k are values up to edge k
            return column, cut, int(tree.children_left[node]), int(tree.children_right[node])

        yield 0, read


def _edges(values: Floats) -> Floats:
    """Borders between bins of about equally many rows, halfway between neighbouring distinct values where few."""
    distinct = np.unique(values)
    if distinct.size <= BINS:
        return np.asarray(0.5 * (distinct[1:] + distinct[:-1]))
    return np.unique(np.quantile(values, np.arange(1, BINS) / BINS, method="lower"))


def _check_rounds(name: str, value: Any) -> None:
    if value != "auto":
        whole(name, value, 0, 10_000)


class MulticalibrationBoost(CutColumns):
    """Gradient boosting on the logit, with the score as a feature and as the offset (after Tax and others, MCGrad).

    Each round grows 25 small trees (learning rate .1) on the columns and the current logit, starting from the current
    logit, and rescales the result by the factor of least log loss. The number of rounds is that of the least held-out
    log loss over 5 folds; none at all unless it is below that of the scores as they are and held-out residuals go the
    way of the change: the sum of (y - p) times the change of the logit is above 0 by more than noise (one-sided 5%), so
    that a calibrated model is left as it is. Does not keep the ranking.

    Levels of a category are ordered by the mean of outcome - score, drawn towards that of all rows as if it were 30
    rows more (within each fold on its own rows); missing is a level; levels not seen in fit go with the commonest.
    Several classes: each against the rest, rows divided by their sums. Counts: trees on the logarithm of the rate, with
    Poisson's deviance, levels ordered by observed / predicted; real numbers: on the prediction, with squared error.

    Parameters
    ----------
    rounds : "auto" or int
        How many rounds of trees; a number is used as it is, without looking at held-out rows.
    engine : {"auto", "lightgbm", "sklearn"}
        Who grows the trees; "auto": LightGBM where it is installed. What is learned is kept as plain arrays, so
        predictions and JSON need neither.
    random_state : int
        Of the folds.
    start : {"score", "rate"}
        Where the first tree starts from: the logit of the score, or that of the share of events, so that the score is
        one column among others: for scores that are of little use.
    rescale : bool
        Whether rounds end with a factor: fitted to the rows that trees have seen, it makes larger trees too sure.
    judges : int
        How many of the 5 folds judge the number of rounds; fewer take less time.
    leaves : int
        Most leaves of a tree. More find finer interactions and more noise.
    min_rows : int
        Fewest rows of a leaf.

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

    against_rest: ClassVar[bool] = True
    responses: ClassVar[tuple[str, ...]] = RESPONSES
    rounds: Any = parameter(_check_rounds, default="auto")
    engine: str = parameter(one_of, ("auto", "lightgbm", "sklearn"), default="auto")
    random_state: int = parameter(whole, 0, 2**31 - 1, default=0)
    leaves: int = parameter(whole, 2, 1000, default=5)
    min_rows: int = parameter(whole, 1, default=50)
    start: str = parameter(one_of, ("score", "rate"), default="score")
    rescale: bool = parameter(truth, default=True)
    judges: int = parameter(whole, 1, FOLDS, default=FOLDS)
    rounds_: int = state("int", low=0)
    gain_: float = state("float")
    scales_: Floats = state("float", "any", low=0.0)
    ends_: Integers = state("int", "any", low=0)
    node_value_: Floats = state("float", "any")
    roots_: Integers = state("int", "any", low=0)
    rate_: float = state("float")

    @property
    def more_columns(self) -> int:  # type: ignore[override]
        """The logit so far, and where that does not start from the score the score's."""
        return 1 if self.start == "score" else 2

    def all_fields(self) -> dict[str, Field]:
        """As others, without the rate where rounds start from the score."""
        return {name: each for name, each in super().all_fields().items() if name != "rate_" or self.start == "rate"}

    def check_state(self) -> None:
        """Refuse trees that are none."""
        super().check_state()
        if not (len(self.scales_) == len(self.ends_) == self.rounds_):
            raise ValueError("the rounds differ in number")
        ordered = np.concatenate([[0], self.ends_])
        if (np.diff(ordered) < 0).any() or int(ordered[-1]) != len(self.roots_):
            raise ValueError("the trees of the rounds do not follow one another")
        size = len(self.node_left_)
        if len(self.node_value_) != size or ((self.roots_ < 0) | (self.roots_ >= size)).any():
            raise ValueError("a tree starts where there is no node, or a node has no value")

    def _fit(self, sample: Sample) -> None:
        options = {"leaves": int(self.leaves), "min_rows": int(self.min_rows), "seed": int(self.random_state)}
        grown_by = partial(grower(self.engine), **options)
        self.gain_ = 0.0
        self.rate_ = float(sample.family.link(np.array([sample.rate]))[0])
        rounds = self.rounds if self.rounds != "auto" else self._chosen_rounds(sample, grown_by)
        boosted = _Boosted(sample, grown_by, self._begun(), self._rescales(sample))
        for _ in range(int(rounds)):
            boosted.grow()
        tree, self.node_value_, self.roots_ = boosted.trees()
        self._keep_trees(boosted.encodings, tree)
        self.rounds_ = len(boosted.ends)
        self.scales_ = np.array(boosted.scales, dtype=np.float64)
        self.ends_ = np.array(boosted.ends, dtype=np.int64)

    def _rescales(self, sample: Sample) -> bool:
        """A factor of the logit is the same in any unit; of the logarithm of a rate, or of an amount, it is not."""
        return bool(self.rescale) and sample.response == "binary"

    def _begun(self) -> float | None:
        """The logit that rounds start from; None: that of the score."""
        return None if self.start == "score" else self.rate_

    def _chosen_rounds(self, sample: Sample, grown_by: Callable[..., Trees]) -> int:
        """The number of rounds with the least held-out loss, 0 unless that is clearly less than the scores' own."""
        place = np.random.default_rng(self.random_state).permutation(sample.rows) % FOLDS
        folds = range(int(self.judges) if sample.rows <= FOLD_ROWS else 1)
        if sample.rows < 2 * FOLDS:
            return 0
        start, rescale, family = self._begun(), self._rescales(sample), sample.family
        models = [_Boosted(sample.take(np.flatnonzero(place != fold)), grown_by, start, rescale) for fold in folds]
        held = [sample.take(np.flatnonzero(place == fold)) for fold in folds]
        numbers, outside = [], []
        for model, part in zip(models, held, strict=True):
            beside, logits = _begin(model.encodings, part.columns, part.probability, start, family)
            numbers.append(beside)
            outside.append(logits)
        weight = np.concatenate([part.weights for part in held])
        outcome = np.concatenate([1.0 * part.outcome for part in held])
        first = family.link(np.concatenate([part.probability for part in held]))
        own = family.losses(first, outcome)
        best, best_mean, best_logit = 0, 0.0, first
        for done in range(1, MOST_ROUNDS + 1):
            for f, model in enumerate(models):
                model.grow()
                outside[f] = model.advance(numbers[f], outside[f])
            logits = np.concatenate(outside)
            mean = float(np.average(own - family.losses(logits, outcome), weights=weight))
            if mean > best_mean:
                best, best_mean, best_logit = done, mean, logits
            if done - best >= PATIENCE:
                break
        beyond = weight * (outcome - family.mean(first)) * (best_logit - first)  # of mean 0 if the scores are right
        if best and float(beyond.sum()) > ONE_SIDED * math.sqrt(float(beyond @ beyond)):
            self.gain_ = best_mean
            return best
        return 0

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        if not self.rounds_:
            return as_rows(probability)
        family = self.family()
        numbers, logits = _begin(self._encodings(), columns, probability, self._begun(), family)
        first = 0
        trees = self._tree(), self.node_value_, self.roots_
        for last, scale in zip(self.ends_.tolist(), self.scales_.tolist(), strict=True):
            logits, first = advanced(trees, first, last, numbers, logits) * scale, last
        return pairs(family.mean(logits))

    def _formula(self) -> nodes.Formula:
        """Rounds of trees on the columns and the logit so far, each round's logit under a name."""
        if not self.rounds_:
            return nodes.PROBABILITY
        columns = cut_columns(self._encodings(), _beyond)
        value: nodes.Node = self.family().before()
        if self.start == "rate":
            columns, value = [*columns, value], nodes.Linear((), self.rate_)
        tree, values = self._tree(), self.node_value_.tolist()
        ends = [0, *self.ends_.tolist()]
        for i, scale in enumerate(self.scales_.tolist()):
            so_far = nodes.Name(f"logit_{i}")
            made = tree.formulas([*columns, so_far], lambda node: nodes.Linear((), values[node]))
            trees = [(scale, made[root]) for root in self.roots_[ends[i] : ends[i + 1]].tolist()]
            total = nodes.Linear(((scale, so_far), *trees), 0.0)
            value = nodes.Named(so_far.name, value, total)
        return self.family().after(value)

    @classmethod
    def _candidates(cls, n_classes: int, columns: Mapping[str, Column], response: str) -> dict[str, Recalibrator]:
        if n_classes > 2 or not columns:
            return {}
        if response != "binary":
            return {cls.__name__: cls(judges=2)}
        finer: Any = {"leaves": 16, "min_rows": 20, "rescale": False, "judges": 2}
        return {cls.__name__: cls(**finer), f"{cls.__name__}(from the rate)": cls(start="rate", **finer)}

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.rounds_ == 0

    def _summary(self) -> str:
        if not self.rounds_:
            return "held-out loss would not improve, so nothing was changed"
        saved = f", saving {self.gain_:.2g} of held-out {self.family().loss} a row" if self.gain_ else ""
        return f"{self.rounds_} rounds of trees{saved}"


def _beyond(column: Encoding) -> float:
    """What a missing number becomes: one after the largest."""
    high = float(column.ends[1])
    return high + 1.0 + abs(high)


def _begin(
    encodings: list[Encoding], columns: Columns, probability: Floats, start: float | None, family: Family
) -> tuple[Floats, Floats]:
    """What trees cut besides the logit so far, and the logit that they start from."""
    numbers, own = np.stack(cut_numbers(encodings, columns, _beyond)), family.link(probability)
    return (numbers, own) if start is None else (np.vstack([numbers, own]), np.full(len(own), start))
