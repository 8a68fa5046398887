"""Multi-calibration by gradient boosting on the logit, stopped by held-out loss; its trees are one table of nodes."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from miscal.data.arrays import Array, Floats, Integers, Plain
from miscal.data.checks import one_of, truth, whole
from miscal.data.columns import Columns
from miscal.data.errors import MissingExtra
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.kernels.logistic import add_trees
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.tree_columns import (
    TreeArrays,
    TreeColumns,
    edge_codes,
    tree_arrays,
    tree_encoding,
)
from miscal.recalibrate.logistic_fit import loss_derivatives
from miscal.recalibrate.newton import Derivatives, newton_minimise
from miscal.recalibrate.parameters import MAX_COEFFICIENT, chosen_columns, parameter, state
from miscal.recalibrate.training_sample import TrainingSample
from miscal.stats.normal import significantly_positive

MAX_ROUNDS = 40
ROUNDS_WITHOUT_GAIN = 2
ROUND_FOLDS = 5
MAX_CROSS_FITTED_ROWS = 200_000  # beyond it one held-out fifth is enough
LEVEL_PRIOR_ROWS = 30.0  # rows that the mean of all rows counts for where levels are ordered
TREES_PER_ROUND = 25  # trees a round, after which the score among the features is the new one
LEARNING_RATE = 0.1
LEAF_L2 = 5.0
MAX_BINS = 255
MIN_THREADED_ROWS = 200_000  # rows from which several threads pay: below it they mostly wait for one another
MIN_LEAF_HESSIAN = (
    5.0  # least sum of the second derivatives in a leaf: of p(1 - p), of expected counts, of rows
)
MIN_ROW_CURVATURE = 1e-6  # least second derivative that a row is divided by
TreeStream = Iterator[TreeArrays]
BoostStates = list[tuple[Floats, Floats]]  # of rows: what trees cut besides the link so far, and that link


def with_mean_weight_one(sample: TrainingSample) -> TrainingSample:
    """The same rows with weights of mean 1: rules for leaves count rows. Weights of counts hold the exposure."""
    factor = 1.0 if sample.response == "count" else sample.rows / sample.total
    return replace(sample, weight=sample.weights * factor)


def best_logit_factor(logits: Floats, sample: TrainingSample) -> float:
    """The factor of the logit with the least log loss, between 1/2 and 2."""
    weight, squared = sample.weights, logits * logits

    def evaluate(scale: Floats) -> Derivatives:
        loss, off, bend = loss_derivatives(scale * logits, sample.outcome, weight)
        return float(weight @ loss), np.array([off @ logits]), np.array([[bend @ squared]])

    found, _ = newton_minimise(evaluate, np.ones(1), sample.total)
    return float(np.clip(found[0], 0.5, 2.0))


def grow_with_lightgbm(how: "MulticalibrationBoost", sample: TrainingSample, features: Floats) -> TreeStream:
    """Grow one round of trees on features (columns, n), the last of which is the link that they start from."""
    import lightgbm

    options = {
        "objective": sample.family.objective,
        "poisson_max_delta_step": 1e-9,
        "learning_rate": LEARNING_RATE,
        "num_leaves": how.leaves,
        "lambda_l2": LEAF_L2,
        "min_sum_hessian_in_leaf": MIN_LEAF_HESSIAN,
        "min_data_in_leaf": how.min_rows,
        "use_missing": False,
        "boost_from_average": False,
        "deterministic": True,
        "force_col_wise": True,
        "seed": how.random_state,
        "verbosity": -1,
        "feature_pre_filter": False,
        "num_threads": 1 if sample.rows < MIN_THREADED_ROWS else 0,
    }
    most = features.max(axis=1, keepdims=True, initial=0.0, where=np.isfinite(features))
    # What is missing is one after the largest, or its bins would merge.
    finite = np.minimum(features, 2.0 * most + 1.0)
    start = {"weight": sample.weight, "init_score": features[-1]}
    data = lightgbm.Dataset(finite.T, sample.outcome, **start, params=options)
    grown = lightgbm.train(options, data, num_boost_round=TREES_PER_ROUND).dump_model()
    for tree in grown["tree_info"]:
        table: list[list[float]] = []
        _append_node(table, tree["tree_structure"])
        parts = np.ascontiguousarray(np.array(table).T)
        yield parts[:3].astype(np.int64), parts[3:]


def _append_node(table: list[list[float]], node: Plain) -> None:
    """Append a node and those below it."""
    made = [node.get("split_feature", -1), -1, -1, node.get("threshold", 0.0), node.get("leaf_value", 0.0)]
    table.append(made)
    for side, child in ((1, "left_child"), (2, "right_child")):
        if child in node:
            made[side] = len(table)
            _append_node(table, node[child])


def grow_with_sklearn(how: "MulticalibrationBoost", sample: TrainingSample, features: Floats) -> TreeStream:
    """As `grow_with_lightgbm`, by Newton steps: trees of residual / bend with weights bend (of two classes p(1 - p)).

    A column has at most 255 bins.
    `HistGradientBoostingClassifier` takes no offset, so its two ideas, bins and Newton steps, are used one by one.
    """
    from sklearn.tree import DecisionTreeRegressor

    edges, codes = edge_codes(list(features), MAX_BINS)
    family, link = sample.family, features[-1].copy()
    regression = DecisionTreeRegressor(
        max_leaf_nodes=how.leaves, min_samples_leaf=how.min_rows, random_state=how.random_state
    )
    for _ in range(TREES_PER_ROUND):
        mean = family.mean(link)
        off = sample.outcome - mean
        curvature = np.maximum(family.curvature(mean), MIN_ROW_CURVATURE)
        counted = sample.weights * curvature
        tree = regression.fit(codes, off / curvature, sample_weight=counted).tree_
        place = regression.apply(codes)
        mass = np.bincount(place, counted)
        step = np.bincount(place, sample.weights * off) / (mass + LEAF_L2)
        step[mass < MIN_LEAF_HESSIAN] = 0.0
        step *= LEARNING_RATE
        link += step[place]
        yield tree_arrays(tree, edges, step)


def _check_rounds(name: str, value: Any) -> None:
    if value != "auto":
        whole(name, value, 0, 10_000)


class MulticalibrationBoost(TreeColumns):
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

    one_vs_rest = True
    responses = RESPONSES
    rounds: Any = parameter(_check_rounds, default="auto")
    engine: str = parameter(one_of, ("auto", "lightgbm", "sklearn"), default="auto")
    random_state: int = parameter(whole, 0, 2**31 - 1, default=0)
    leaves: int = parameter(whole, 2, 1000, default=5)
    min_rows: int = parameter(whole, 1, default=50)
    start: str = parameter(one_of, ("score", "rate"), default="score")
    rescale: bool = parameter(truth, default=True)
    judges: int = parameter(whole, 1, ROUND_FOLDS, default=ROUND_FOLDS)
    gain_: float = state("float")
    scales_: Floats = state("float", "any", low=0.0)
    ends_: Integers = state("int", "any", low=0)
    rate_: float = state("float")

    @property
    def more_columns(self) -> int:  # type: ignore[override]
        """The logit so far, and where that does not start from the score the score's."""
        return 1 if self.start == "score" else 2

    def check_state(self) -> None:
        """Refuse trees that are none."""
        super().check_state()
        ends = [0, *self.ends_.tolist()]
        if len(self.scales_) != self.rounds_ or ends != sorted(ends) or ends[-1] != self.nodes_.shape[1]:
            raise ValueError("the trees of the rounds do not follow one another")
        if (np.abs(self.cuts_[1]) > MAX_COEFFICIENT).any():
            raise ValueError("'cuts_' must hold values whose sums are finite")

    @property
    def rounds_(self) -> int:
        """How many rounds of trees."""
        return len(self.ends_)

    def _fit(self, sample: TrainingSample) -> None:
        self.gain_ = 0.0
        self.rate_ = float(sample.family.link(np.array(sample.rate)))
        rounds = self.rounds if self.rounds != "auto" else self._chosen_rounds(sample)
        even = with_mean_weight_one(sample)
        begun = self.begin(even)
        for _ in range(rounds):
            begun = self.grow(even, begun)

    def begin(self, sample: TrainingSample, *asked: TrainingSample) -> BoostStates:
        """Learn how trees see columns, and look at the rows to fit on, and at others, before the first tree."""
        expected = sample.probability if self.start == "score" else np.full(sample.rows, sample.rate)
        looked = sample.family.target(expected, sample.outcome, sample.weights)
        columns = chosen_columns(sample.columns, None)
        self._store_encodings([tree_encoding(column, *looked, LEVEL_PRIOR_ROWS) for column in columns])
        self.nodes_ = np.empty((3, 0), np.int64)
        self.cuts_ = np.empty((2, 0))
        self.ends_ = np.empty(0, np.int64)
        self.scales_ = np.empty(0)
        return [self._begun(each.columns, sample.family.link(each.probability)) for each in (sample, *asked)]

    def _begun(self, columns: Columns, own: Floats) -> tuple[Floats, Floats]:
        """What trees cut besides the link so far, and the link that they start from; `own` is the score's."""
        numbers = np.stack(self._numbers(columns))
        if self.start == "score":
            return numbers, own
        return np.vstack([numbers, own]), np.full(len(own), self.rate_)

    def grow(self, sample: TrainingSample, begun: BoostStates) -> BoostStates:
        """One more round of trees, and a scale after them; the rows come first among those begun."""
        installed = find_spec("lightgbm") is not None
        if self.engine == "lightgbm" and not installed:
            raise MissingExtra("MulticalibrationBoost(engine='lightgbm')", "lightgbm", "boost")
        grower = grow_with_lightgbm if installed and self.engine != "sklearn" else grow_with_sklearn
        roots = []
        for grown, values in grower(self, sample, np.vstack(begun[0])):
            roots.append(self.nodes_.shape[1])
            grown[1:] += np.where(grown[1:] >= 0, roots[-1], 0)
            self.nodes_ = np.hstack([self.nodes_, grown])
            self.cuts_ = np.hstack([self.cuts_, values])
        moved = [self._moved(roots, *each) for each in begun]
        # A factor of the logit is the same in any unit; of the logarithm of a rate, or of an amount, it is not.
        scale = best_logit_factor(moved[0], sample) if self.rescale and sample.response == "binary" else 1.0
        self.ends_ = np.append(self.ends_, self.nodes_.shape[1])
        self.scales_ = np.append(self.scales_, scale)
        return [(each[0], link * scale) for each, link in zip(begun, moved, strict=True)]

    def _moved(self, roots: Sequence[int] | Integers, numbers: Floats, link: Floats) -> Floats:
        """The link and on it the trees that start at the roots."""
        column, left, right = self.nodes_
        threshold, value = self.cuts_
        starts, moved = np.array(roots), link.copy()
        cut = np.vstack([numbers, link])
        add_trees(cut, column, threshold, left, right, value, starts, 0, len(starts), moved)
        return moved

    def _chosen_rounds(self, sample: TrainingSample) -> int:
        """The number of rounds with the least held-out loss, 0 unless that is clearly less than the scores' own."""
        if sample.rows < 2 * ROUND_FOLDS:
            return 0
        place = np.random.default_rng(self.random_state).permutation(sample.rows) % ROUND_FOLDS
        folds = range(self.judges if sample.rows <= MAX_CROSS_FITTED_ROWS else 1)
        held = sample.take(np.concatenate([np.flatnonzero(place == fold) for fold in folds]))
        family, outcome, weight = sample.family, held.outcome, held.weights
        first = family.link(held.probability)
        own = family.losses(first, outcome)
        best, best_mean, best_logit = 0, 0.0, first
        grown = zip(*(self._held_links(sample, place == fold) for fold in folds), strict=True)
        for done, links in zip(range(1, MAX_ROUNDS + 1), grown, strict=False):
            logits = np.concatenate(links)
            mean = float(np.average(own - family.losses(logits, outcome), weights=weight))
            if mean > best_mean:
                best, best_mean, best_logit = done, mean, logits
            if done - best >= ROUNDS_WITHOUT_GAIN:
                break
        # Of mean 0 if the scores are right.
        beyond = weight * (outcome - family.mean(first)) * (best_logit - first)
        if best and significantly_positive(beyond):
            self.gain_ = best_mean
            return best
        return 0

    def _held_links(self, sample: TrainingSample, held: Array) -> Iterator[Floats]:
        """The link of rows held out after each round of trees grown on the others, without end."""
        model = copy(self)
        fitted = with_mean_weight_one(sample.take(~held))
        begun = model.begin(fitted, sample.take(held))
        while True:
            begun = model.grow(fitted, begun)
            yield begun[1][1]

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        if not self.rounds_:
            return probability
        family = self.outcome_family()
        numbers, link = self._begun(columns, family.link(probability))
        for roots, scale in self._rounds():
            link = self._moved(roots, numbers, link) * scale
        return family.mean(link)

    def _rounds(self) -> Iterator[tuple[Integers, float]]:
        """Where the trees of each round start, and its scale."""
        roots = self._roots()
        starts = np.split(roots, np.searchsorted(roots, self.ends_))
        return zip(starts[:-1], self.scales_.tolist(), strict=True)

    def _formula(self) -> nodes.Formula:
        """Rounds of trees on the columns and the logit so far, each round's logit under a name."""
        if not self.rounds_:
            return nodes.PROBABILITY
        columns = self._column_formulas()
        value: nodes.Node = self.outcome_family().link_formula
        if self.start == "rate":
            columns = [*columns, value]
            value = nodes.Linear((), self.rate_)
        for i, (roots, scale) in enumerate(self._rounds()):
            so_far = nodes.Name(f"logit_{i}")
            made = self._node_formulas(
                [*columns, so_far], lambda node: nodes.Linear((), float(self.cuts_[1, node]))
            )
            total = nodes.Linear(((scale, so_far), *((scale, made[root]) for root in roots)))
            value = nodes.Named(so_far.name, value, total)
        return self.outcome_family().mean_formula(value)

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        if sample.n_classes > 2 or not sample.columns:
            return {}
        if sample.response != "binary":
            return {cls.__name__: cls(judges=2)}
        finer: Any = {"leaves": 16, "min_rows": 20, "rescale": False, "judges": 2}
        return {cls.__name__: cls(**finer), f"{cls.__name__}(from the rate)": cls(start="rate", **finer)}

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.rounds_ == 0

    def _summary(self) -> str:
        if not self.rounds_:
            return "held-out loss would not improve, so nothing was changed"
        return f"{self.rounds_} rounds of trees"
