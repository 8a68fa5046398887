"""Multicalibration by gradient boosting on the logit, with held-out loss as stopping rule (after MCGrad).

Trees are grown by LightGBM or scikit-learn and kept as one table of nodes, round after round.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from miscal.codes.data import Response
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

# How the number of rounds is chosen.
MAX_ROUNDS = 40
ROUNDS_WITHOUT_GAIN = 2
ROUND_FOLDS = 5
#: Of more rows, one held-out fold is enough.
MAX_CROSS_FITTED_ROWS = 200_000
#: Fewest rows per fold.
MIN_FOLD_ROWS = 2

# How trees are grown.
TREES_PER_ROUND = 25
LEARNING_RATE = 0.1
#: Penalty on the values of leaves.
LEAF_L2 = 5.0
MAX_BINS = 255
#: Least sum of the second derivatives in a leaf: of p(1 - p), of expected counts, of rows.
MIN_LEAF_HESSIAN = 5.0
#: Least second derivative that a row is divided by.
MIN_ROW_CURVATURE = 1e-6
#: Rows that the mean of all rows counts for where levels are ordered.
LEVEL_PRIOR_ROWS = 30.0
#: Rows from which several threads pay: below, they mostly wait for one another.
MIN_THREADED_ROWS = 200_000
#: Range of the factor of the logit after a round.
MIN_FACTOR, MAX_FACTOR = 0.5, 2.0

TreeStream: TypeAlias = Iterator[TreeArrays]
#: Of some rows: what trees cut besides the current link, (columns, n), and that link, (n,).
BoostState: TypeAlias = tuple[Floats, Floats]


def with_mean_weight_one(sample: TrainingSample) -> TrainingSample:
    """The same rows with weights of mean 1: rules for leaves count rows. Weights of counts hold the exposure."""
    factor = 1.0 if sample.response == Response.COUNT else sample.rows / sample.total
    return replace(sample, weight=sample.weights * factor)


def best_logit_factor(logits: Floats, sample: TrainingSample) -> float:
    """The factor of the logit with the least log loss, between 1/2 and 2."""
    weight, squared = sample.weights, logits * logits

    def evaluate(factor: Floats) -> Derivatives:
        loss, residual, curvature = loss_derivatives(factor * logits, sample.outcome, weight)
        return float(weight @ loss), np.array([residual @ logits]), np.array([[curvature @ squared]])

    factor, _ = newton_minimise(evaluate, np.ones(1), sample.total)
    return float(np.clip(factor[0], MIN_FACTOR, MAX_FACTOR))


def grow_with_lightgbm(
    booster: "MulticalibrationBoost", sample: TrainingSample, features: Floats
) -> TreeStream:
    """Grow one round of trees with LightGBM.

    Parameters
    ----------
    booster : MulticalibrationBoost
        Its parameters say how.
    sample : TrainingSample
        The rows.
    features : (columns, n) array
        The last is the link that the trees start from.

    Yields
    ------
    TreeArrays
        Of each tree.
    """
    import lightgbm

    options = {
        "objective": sample.family.objective,
        "poisson_max_delta_step": 1e-9,
        "learning_rate": LEARNING_RATE,
        "num_leaves": booster.leaves,
        "lambda_l2": LEAF_L2,
        "min_sum_hessian_in_leaf": MIN_LEAF_HESSIAN,
        "min_data_in_leaf": booster.min_rows,
        "use_missing": False,
        "boost_from_average": False,
        "deterministic": True,
        "force_col_wise": True,
        "seed": booster.random_state,
        "verbosity": -1,
        "feature_pre_filter": False,
        "num_threads": 1 if sample.rows < MIN_THREADED_ROWS else 0,
    }
    largest = features.max(axis=1, keepdims=True, initial=0.0, where=np.isfinite(features))
    # Infinite, a missing value would merge bins: it is one after the largest.
    finite = np.minimum(features, 2.0 * largest + 1.0)
    start = {"weight": sample.weight, "init_score": features[-1]}
    data = lightgbm.Dataset(finite.T, sample.outcome, **start, params=options)
    model = lightgbm.train(options, data, num_boost_round=TREES_PER_ROUND).dump_model()
    for tree in model["tree_info"]:
        table: list[list[float]] = []
        _append_node(table, tree["tree_structure"])
        arrays = np.ascontiguousarray(np.array(table).T)
        yield arrays[:3].astype(np.int64), arrays[3:]


def _append_node(table: list[list[float]], node: Plain) -> None:
    """Append a node of LightGBM's model and those below it."""
    row = [node.get("split_feature", -1), -1, -1, node.get("threshold", 0.0), node.get("leaf_value", 0.0)]
    table.append(row)
    for side, child in ((1, "left_child"), (2, "right_child")):
        if child in node:
            row[side] = len(table)
            _append_node(table, node[child])


def grow_with_sklearn(
    booster: "MulticalibrationBoost", sample: TrainingSample, features: Floats
) -> TreeStream:
    """As `grow_with_lightgbm`, by Newton steps: trees of residual / curvature, weighted by the curvature.

    `HistGradientBoostingClassifier` takes no offset, so its two ideas, bins and Newton steps, are used one by one.
    """
    from sklearn.tree import DecisionTreeRegressor

    edges, codes = edge_codes(list(features), MAX_BINS)
    family, link = sample.family, features[-1].copy()
    regression = DecisionTreeRegressor(
        max_leaf_nodes=booster.leaves,
        min_samples_leaf=booster.min_rows,
        random_state=booster.random_state,
    )
    for _ in range(TREES_PER_ROUND):
        mean = family.mean(link)
        residual = sample.outcome - mean
        curvature = np.maximum(family.curvature(mean), MIN_ROW_CURVATURE)
        row_weight = sample.weights * curvature
        tree = regression.fit(codes, residual / curvature, sample_weight=row_weight).tree_
        leaf = regression.apply(codes)
        mass = np.bincount(leaf, row_weight)
        step = np.bincount(leaf, sample.weights * residual) / (mass + LEAF_L2)
        step[mass < MIN_LEAF_HESSIAN] = 0.0
        step *= LEARNING_RATE
        link += step[leaf]
        yield tree_arrays(tree, edges, step)


def _check_rounds(name: str, value: Any) -> None:
    if value != "auto":
        whole(name, value, 0, 10_000)


class MulticalibrationBoost(TreeColumns):
    """Gradient boosting on the logit, with the score as a feature and as the offset (after Tax and others, MCGrad).

    Each round grows 25 small trees (learning rate .1) on the columns and the current logit, starting from the current
    logit, and rescales the result by the factor of least log loss. The number of rounds is that of the least held-out
    log loss over 5 folds. It is 0 unless that is below the loss of the scores as they are and held-out residuals have
    the sign of the change: the sum of (y - p) times the change of the logit is significantly above 0 (one-sided 5%), so
    that a calibrated model is left as it is. Does not keep the ranking.

    Levels of a category are ordered by the mean of outcome - score, shrunk towards that of all rows as if it were 30
    rows more (within each fold on the fold's rows); missing is a level; levels not seen in fit go with the most
    frequent. Several classes: each against the rest, rows divided by their sums. Counts: trees on the logarithm of the
    rate, with Poisson's deviance, levels ordered by observed / predicted; real numbers: on the prediction, with squared
    error.

    Parameters
    ----------
    rounds : "auto" or int, default="auto"
        How many rounds of trees; a number is used as it is, without held-out rows.
    engine : {"auto", "lightgbm", "sklearn"}, default="auto"
        What grows the trees; "auto": LightGBM where it is installed. What is learned is kept as plain arrays, so
        predictions and JSON need neither.
    random_state : int, default=0
        Seed of the folds.
    leaves : int, default=5
        Most leaves of a tree. More fit finer interactions and more noise.
    min_rows : int, default=50
        Fewest rows of a leaf.
    start : {"score", "rate"}, default="score"
        Where the first tree starts from: the logit of the score, or that of the share of events, so that the score is
        one column among others: for scores that are of little use.
    rescale : bool, default=True
        Whether rounds end with a factor. It is fitted to the rows that trees were grown on, so that with larger trees
        it makes predictions too extreme.
    judges : int, default=5
        On how many of the 5 folds the number of rounds is chosen; fewer take less time.

    Attributes
    ----------
    rounds_ : int
        How many rounds of trees.
    gain_ : float
        Held-out log loss saved per row against leaving the scores as they are; 0 where `rounds` is a number.
    scales_ : (rounds,) array
        Factor after each round.
    ends_ : (rounds,) array of int
        Node after the last one of each round.
    rate_ : float
        Link of the mean outcome.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.integers(20, 80, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(age < 50, y_prob**2, y_prob)
    >>> model = MulticalibrationBoost().fit(y_prob, y, {"age": age})
    >>> model.predict_proba([0.5, 0.5], {"age": [30, 70]})[:, 1].round(1)
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
        """The current logit, and where that does not start from the score, the score's."""
        return 1 if self.start == "score" else 2

    @property
    def rounds_(self) -> int:
        """How many rounds of trees."""
        return len(self.ends_)

    def check_state(self) -> None:
        """Reject rounds that do not follow one another."""
        super().check_state()
        ends = [0, *self.ends_.tolist()]
        if len(self.scales_) != self.rounds_ or ends != sorted(ends) or ends[-1] != self.nodes_.shape[1]:
            raise ValueError("the trees of the rounds do not follow one another")
        if (np.abs(self.cuts_[1]) > MAX_COEFFICIENT).any():
            raise ValueError("'cuts_' must hold values whose sums are finite")

    # --------------------------------------------------------------------------------------------------------- fit
    def _fit(self, sample: TrainingSample) -> None:
        self.gain_ = 0.0
        self.rate_ = float(sample.family.link(np.array(sample.rate)))
        rounds = self.rounds if self.rounds != "auto" else self._chosen_rounds(sample)
        weighted = with_mean_weight_one(sample)
        states = self.start_states(weighted)
        for _ in range(rounds):
            states = self.grow_round(weighted, states)

    def start_states(self, sample: TrainingSample, *others: TrainingSample) -> list[BoostState]:
        """Learn how trees see columns; the states of the rows to fit on, and of others, before the first tree."""
        expected = sample.probability if self.start == "score" else np.full(sample.rows, sample.rate)
        target, weight = sample.family.target(expected, sample.outcome, sample.weights)
        columns = chosen_columns(sample.columns, None)
        self._store_encodings([tree_encoding(column, target, weight, LEVEL_PRIOR_ROWS) for column in columns])
        self.nodes_ = np.empty((3, 0), np.int64)
        self.cuts_ = np.empty((2, 0))
        self.ends_ = np.empty(0, np.int64)
        self.scales_ = np.empty(0)
        return [
            self._start_state(rows.columns, sample.family.link(rows.probability))
            for rows in (sample, *others)
        ]

    def _start_state(self, columns: Columns, score_link: Floats) -> BoostState:
        """What trees cut besides the current link, and the link that they start from."""
        numbers = np.stack(self._numbers(columns))
        if self.start == "score":
            return numbers, score_link
        return np.vstack([numbers, score_link]), np.full(len(score_link), self.rate_)

    def grow_round(self, sample: TrainingSample, states: Sequence[BoostState]) -> list[BoostState]:
        """One more round of trees, and a factor after them; the rows to fit on come first among the states."""
        installed = find_spec("lightgbm") is not None
        if self.engine == "lightgbm" and not installed:
            raise MissingExtra("MulticalibrationBoost(engine='lightgbm')", "lightgbm", "boost")
        grow = grow_with_lightgbm if installed and self.engine != "sklearn" else grow_with_sklearn
        roots = []
        for links, values in grow(self, sample, np.vstack(states[0])):
            roots.append(self.nodes_.shape[1])
            links[1:] += np.where(links[1:] >= 0, roots[-1], 0)
            self.nodes_ = np.hstack([self.nodes_, links])
            self.cuts_ = np.hstack([self.cuts_, values])
        moved = [self._add_trees(roots, numbers, link) for numbers, link in states]
        # A factor of the logit is the same in any unit; of the logarithm of a rate, or of an amount, it is not.
        rescales = self.rescale and sample.response == Response.BINARY
        factor = best_logit_factor(moved[0], sample) if rescales else 1.0
        self.ends_ = np.append(self.ends_, self.nodes_.shape[1])
        self.scales_ = np.append(self.scales_, factor)
        return [(numbers, link * factor) for (numbers, _), link in zip(states, moved, strict=True)]

    def _add_trees(self, roots: Sequence[int] | Integers, numbers: Floats, link: Floats) -> Floats:
        """The link plus the trees that start at the roots."""
        column, left, right = self.nodes_
        threshold, value = self.cuts_
        starts, moved = np.array(roots), link.copy()
        cut = np.vstack([numbers, link])
        add_trees(cut, column, threshold, left, right, value, starts, 0, len(starts), moved)
        return moved

    def _chosen_rounds(self, sample: TrainingSample) -> int:
        """The number of rounds with the least held-out loss, 0 unless that is significantly less than the scores'."""
        if sample.rows < MIN_FOLD_ROWS * ROUND_FOLDS:
            return 0
        fold_of_row = np.random.default_rng(self.random_state).permutation(sample.rows) % ROUND_FOLDS
        folds = range(self.judges if sample.rows <= MAX_CROSS_FITTED_ROWS else 1)
        held_out = sample.take(np.concatenate([np.flatnonzero(fold_of_row == fold) for fold in folds]))
        family, outcome, weight = sample.family, held_out.outcome, held_out.weights
        start_link = family.link(held_out.probability)
        start_loss = family.losses(start_link, outcome)
        best_rounds, best_gain, best_link = 0, 0.0, start_link
        links_by_round = zip(
            *(self._held_out_links(sample, fold_of_row == fold) for fold in folds), strict=True
        )
        for rounds, fold_links in zip(range(1, MAX_ROUNDS + 1), links_by_round, strict=False):
            link = np.concatenate(fold_links)
            gain = float(np.average(start_loss - family.losses(link, outcome), weights=weight))
            if gain > best_gain:
                best_rounds, best_gain, best_link = rounds, gain, link
            if rounds - best_rounds >= ROUNDS_WITHOUT_GAIN:
                break
        # Has mean 0 if the scores are right.
        terms = weight * (outcome - family.mean(start_link)) * (best_link - start_link)
        if best_rounds and significantly_positive(terms):
            self.gain_ = best_gain
            return best_rounds
        return 0

    def _held_out_links(self, sample: TrainingSample, held_out: Array) -> Iterator[Floats]:
        """The link of held-out rows after each round of trees grown on the others, without end."""
        model = copy(self)
        fitted = with_mean_weight_one(sample.take(~held_out))
        states = model.start_states(fitted, sample.take(held_out))
        while True:
            states = model.grow_round(fitted, states)
            _, held_out_state = states
            yield held_out_state[1]

    # --------------------------------------------------------------------------------------------------------- map
    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        if not self.rounds_:
            return probability
        family = self.outcome_family()
        numbers, link = self._start_state(columns, family.link(probability))
        for roots, factor in self._round_roots():
            link = self._add_trees(roots, numbers, link) * factor
        return family.mean(link)

    def _round_roots(self) -> Iterator[tuple[Integers, float]]:
        """Where the trees of each round start, and the factor after it."""
        roots = self._roots()
        by_round = np.split(roots, np.searchsorted(roots, self.ends_))
        return zip(by_round[:-1], self.scales_.tolist(), strict=True)

    def _formula(self) -> nodes.Formula:
        """Rounds of trees on the columns and the current logit, each round's logit under a name."""
        if not self.rounds_:
            return nodes.PROBABILITY
        columns = self._column_formulas()
        link: nodes.Node = self.outcome_family().link_formula
        if self.start == "rate":
            columns = [*columns, link]
            link = nodes.Linear((), self.rate_)
        for i, (roots, factor) in enumerate(self._round_roots()):
            current = nodes.Name(f"logit_{i}")
            trees = self._node_formulas(
                [*columns, current], lambda node: nodes.Linear((), float(self.cuts_[1, node]))
            )
            total = nodes.Linear(((factor, current), *((factor, trees[root]) for root in roots)))
            link = nodes.Named(current.name, link, total)
        return self.outcome_family().mean_formula(link)

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        if sample.n_classes > 2 or not sample.columns:
            return {}
        if sample.response != Response.BINARY:
            return {cls.__name__: cls(judges=2)}
        finer: Plain = {"leaves": 16, "min_rows": 20, "rescale": False, "judges": 2}
        return {cls.__name__: cls(**finer), f"{cls.__name__}(from the rate)": cls(start="rate", **finer)}

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.rounds_ == 0

    def _summary(self) -> str:
        if not self.rounds_:
            return "held-out loss would not improve, so nothing was changed"
        return f"{self.rounds_} rounds of trees"
