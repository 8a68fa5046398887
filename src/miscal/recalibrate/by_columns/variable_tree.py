"""Recalibration along variables: a tree of recalibrators (paper 000, section 6)."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

from miscal.data.arrays import Floats, Integers
from miscal.data.checks import number, whole
from miscal.data.columns import Columns
from miscal.data.errors import listed
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.tree_columns import TreeColumns, edge_codes, tree_arrays, tree_encoding
from miscal.recalibrate.logistic_curves import BetaCalibration
from miscal.recalibrate.mean_scaling import MeanScaling
from miscal.recalibrate.parameters import check_column_choice, check_that, chosen_columns, parameter, state
from miscal.recalibrate.softmax_scaling import DirichletCalibration
from miscal.recalibrate.training_sample import TrainingSample

LEAF_PRIOR_EVENTS = 10.0  # events (rows, of real numbers) that a factor of 1 counts for in a leaf
LEAF_PENALTY = (
    3.0  # of the leaves' own recalibrator: coefficients are expected within about 0.6 of the identity's
)


def _default_leaf(rows: TrainingSample) -> Recalibrator:
    """The recalibrator of a leaf with such rows, drawn towards the identity."""
    if rows.response != "binary":
        return MeanScaling(prior=LEAF_PRIOR_EVENTS)
    if rows.n_classes == 2:
        return BetaCalibration(l2=LEAF_PENALTY, towards="identity")
    return DirichletCalibration(
        l2=0.5 * LEAF_PENALTY / rows.total, towards="identity"
    )  # against the mean loss


def _check_min_leaf(name: str, value: Any) -> None:
    if isinstance(value, Integral):
        whole(name, value, 1)
    else:
        number(name, value, 0.0, 0.5, above=True)


class VariableTree(TreeColumns):
    """Cut the rows by a decision tree on variables and recalibrate each leaf by itself (Kelly and Smyth 2023).

    It is a probability calibration tree (Leathart and others 2017) whose splits come from the columns alone.

    The tree (CART, Gini) predicts the outcome from the columns alone. Each leaf gets its own recalibrator, fitted on
    its rows; a leaf with one class only uses the map of its nearest ancestor with two. The default recalibrator is
    drawn towards leaving the scores alone, so that a small leaf gives no certainties (on 50 calibrated rows the log
    loss of unseen ones grows by 0.03; without, by 5). Does not keep the ranking.

    Numbers beyond the range of fit go to the end leaf. Missing numbers come after the largest, where a cut may set them
    apart. Levels of a category are ordered by the share of class 1 (several classes: of the commonest class);
    missing is a level; levels not seen in fit, and missing values where fit had none, go with the commonest level.
    Constant columns are never cut: with nothing to cut the tree is one leaf. Of means the tree cuts by observed /
    predicted (counts) or by their difference (real numbers), and leaves are factors or shifts drawn towards none.

    Parameters
    ----------
    columns : names or positions, optional
        Which columns of X; None: all.
    leaf : recalibrator of the score, optional
        What each leaf gets a copy of. None: BetaCalibration(l2=3, towards="identity"); for more than two classes
        DirichletCalibration with the same penalty. The paper has no such penalty.
    max_depth : int
    min_leaf : float or int
        The smallest leaf: a share of the rows (of the weight, with weights) below 1, or a number of rows.
    random_state : int
        Settles which of equally good cuts is taken.

    Attributes
    ----------
    names_ : (d,) names of the columns
    leaves_ : list of fitted recalibrators, one a node, None at inner nodes

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.integers(20, 80, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(age < 50, y_prob**2, y_prob)
    >>> VariableTree(max_depth=1).fit(y_prob, y, {"age": age})
    VariableTree(max_depth=1) fitted on 4,000 rows: 2 leaves; age <= 49.5
    """

    responses = RESPONSES

    columns: Any = parameter(check_column_choice, default=None)
    leaf: Recalibrator | None = parameter(
        check_that,
        lambda leaf: isinstance(leaf, Recalibrator) and not leaf.uses_columns,
        "must be a recalibrator of the score",
        default=None,
    )
    max_depth: int = parameter(whole, 1, 64, default=3)
    min_leaf: float = parameter(_check_min_leaf, default=0.1)
    random_state: int = parameter(whole, 0, 2**32 - 1, default=0)
    leaves_: list[Any] = state("inner", "any")

    def check_state(self) -> None:
        """Refuse a tree that is none, or leaves that do not belong to it."""
        super().check_state()
        if len(self._roots()) != 1:
            raise ValueError("the nodes do not form one tree")
        if [leaf is None for leaf in self.leaves_] != (self.nodes_[1] >= 0).tolist():
            raise ValueError("leaves must hold a recalibrator, inner nodes none")

    def _fit(self, sample: TrainingSample) -> None:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind, learned_on = DecisionTreeClassifier, (sample.outcome, sample.weight)
        favourite = 1 if sample.n_classes == 2 else np.argmax(sample.class_weights)
        target, weights = sample.outcome == favourite, sample.weights
        if sample.response != "binary":
            target, weights = sample.family.target(sample.probability, sample.outcome, weights)
            kind, learned_on = DecisionTreeRegressor, (target, weights)
        chosen = chosen_columns(sample.columns, self.columns)
        self._store_encodings([tree_encoding(column, target, weights) for column in chosen])
        numbers = self._numbers(sample.columns)
        edges, codes = edge_codes(numbers)
        by_weight = self.min_leaf < 1 and learned_on[1] is not None
        smallest = {"min_weight_fraction_leaf" if by_weight else "min_samples_leaf": self.min_leaf}
        grower = kind(max_depth=self.max_depth, random_state=self.random_state, **smallest)
        self.nodes_, self.cuts_ = tree_arrays(grower.fit(codes, *learned_on).tree_, edges)
        self.leaves_ = [None] * self.nodes_.shape[1]
        above: dict[int, TrainingSample] = {}  # what the node above has learned from
        for node, rows in self._parts(numbers, np.arange(sample.rows)):
            part = sample.take(rows)
            part = part if part.has_variation else above[node]
            above |= dict.fromkeys(self.nodes_[1:, node].tolist(), part)
            if self.nodes_[1, node] < 0:
                leaf = self.leaf or _default_leaf(part)
                self.leaves_[node] = leaf.fit_copy(part)

    def _parts(self, numbers: list[Floats], rows: Integers, node: int = 0) -> Iterator[tuple[int, Integers]]:
        """Each node, and those of the rows that pass it, from the root down."""
        yield node, rows
        column, left, right = self.nodes_[:, node].tolist()
        if left >= 0:
            goes_left = numbers[column][rows] <= self.cuts_[0, node]
            yield from self._parts(numbers, rows[goes_left], left)
            yield from self._parts(numbers, rows[~goes_left], right)

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        out = np.empty((len(probability), self.n_classes_))
        for node, rows in self._parts(self._numbers(columns), np.arange(len(probability))):
            leaf = self.leaves_[node]
            if leaf is not None:
                out[rows] = leaf.map_checked(probability[rows])
        return out

    def _formula(self) -> nodes.Formula:
        return self._node_formulas(self._column_formulas(), lambda node: self.leaves_[node].formula())[0]

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        return {f"{cls.__name__}({name})": cls(columns=[name]) for name in sample.numeric_names()}

    def _summary(self) -> str:
        cuts = []
        for node in np.flatnonzero(self.nodes_[1] >= 0):
            column, threshold = self.nodes_[0, node], self.cuts_[0, node]
            among = f"<= {threshold:g}"
            if self.nominal_[column]:
                levels = [*map(str, self.levels_[column][: int(threshold // 1) + 1])]
                among = f"in {{{listed(levels, 3)}}}"
            cuts.append(f"{self.names_[column]} {among}")
        return f"{1 + len(cuts)} leaves; {listed(cuts, 4)}" if cuts else "1 leaf"
