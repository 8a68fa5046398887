"""Recalibration along variables: a tree of recalibrators (paper 000, section 6)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Floats, Integers
from miscal.data.checks import number, whole
from miscal.data.columns import Column, Columns
from miscal.data.errors import listed
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.recalibrate.base import ByColumns, Recalibrator
from miscal.recalibrate.curves import BetaCalibration, MeanScaling
from miscal.recalibrate.parameters import check_chosen, chosen_columns, parameter, state, such
from miscal.recalibrate.sample import Sample
from miscal.recalibrate.softmax import DirichletCalibration

PRIOR = 10.0  # events (rows, of real numbers) that a factor of 1 counts for in a leaf
Trees = tuple[Integers, Floats]  # of each node of trees: column, left and right; threshold and value
PENALTY = 3.0  # of the leaves' own recalibrator: coefficients are expected within about 0.6 of the identity's


def coded(column: Column, target: Floats, weight: Floats, prior: float = 0.0) -> Encoding:
    """Learn how trees see a column; levels are ordered by their means of `target`.

    Means are drawn towards that of all rows, which counts for `prior` rows: a small level then lies near the middle.
    """
    made = Encoding.learned(column)
    if not column.nominal:
        seen = column.values[~column.missing]
        return replace(made, ends=(seen.min(), seen.max()) if seen.size else (0.0, 0.0))
    place = made.read(Columns({column.name: column}))
    mass = np.bincount(place, weights=weight)
    sums = np.bincount(place, weights=weight * target)
    share = (sums + prior * np.average(target, weights=weight)) / (mass + prior)
    order = np.argsort(share, kind="stable").tolist()
    known = len(made.levels) - made.missing
    commonest = float(order.index(np.argmax(mass[:known]))) if known else 0.0
    levels = [made.levels[i] for i in order]
    return replace(made, levels=levels, ends=(commonest, commonest))


def codes_between(numbers: Sequence[Floats], most: float = np.inf) -> tuple[list[Floats], Array]:
    """Edges halfway between the values of each column, and how many of them lie below each row's, (rows, columns).

    A tree that sees codes does not suffer from being grown in single precision. Of more than `most` distinct values
    edges are some of them, with about equally many rows between.
    """
    edges, codes = [], []
    for values in numbers:
        distinct = np.unique(values)
        below, above = distinct[:-1], distinct[1:]
        between = np.where(np.isinf(above), below, 0.5 * below + 0.5 * above)
        if distinct.size > most:
            between = np.unique(np.quantile(values, np.arange(1, most) / most, method="lower"))
        edges.append(between)
        codes.append(np.searchsorted(between, values))
    return edges, np.stack(codes, axis=1).astype(np.float32)


def tree_of(grown: Any, edges: list[Floats], value: Floats | float = 0.0) -> Trees:
    """A tree that scikit-learn grew on codes, with cuts at the edges that the codes stand for."""
    column = np.maximum(grown.feature, -1)
    codes = np.floor(grown.threshold).astype(np.int64)
    cuts = [edges[j][code] if j >= 0 else 0.0 for j, code in zip(column, codes, strict=True)]
    return np.array([column, grown.children_left, grown.children_right]), np.array(
        np.broadcast_arrays(cuts, value)
    )


class CutColumns(ByColumns):
    """Base of recalibrators whose trees cut columns.

    Rows whose column is at most the threshold go left, others right; leaves have left -1. Numbers stay numbers, held
    within the range of fit; missing ones come after the largest. Levels become their place in the order of a mean,
    missing being a level; levels not seen in fit, and missing values where fit had none, take the place of the
    commonest level.
    """

    more_columns: ClassVar[int] = 0  # that trees cut besides

    nominal_: Array = state("bool", "any")
    # Of a category: the place of what is unseen.
    ranges_: Floats = state("float", "any", 2, low=-np.inf, high=np.inf)
    nodes_: Integers = state("int", 3, "any", low=-1)  # column, left and right
    cuts_: Floats = state("float", 2, "any", low=-np.inf, high=np.inf)  # threshold and value

    def check_state(self) -> None:
        """Refuse nodes that do not form trees: children come after their parents, and nothing points outside."""
        super().check_state()
        count = self.nodes_.shape[1]
        inner = np.flatnonzero(self.nodes_[1] >= 0)
        column, children = self.nodes_[0, inner], self.nodes_[1:, inner]
        fine = (inner < children) & (children < count)
        once = np.unique(children).size == children.size
        if not fine.all() or not once or self.cuts_.shape[1] != count:
            raise ValueError("the nodes do not form trees")
        known = range(len(self.names_) + self.more_columns)
        if not np.isin(column, known).all():
            raise ValueError("the trees cut a column that is not there")

    def _numbers(self, columns: Columns) -> list[Floats]:
        """The columns as numbers that trees cut; missing ones come after the largest."""
        made = [each.read(columns) for each in self._encodings()]
        return [np.where(np.isnan(values), np.inf, values) for values in made]

    def _roots(self) -> Integers:
        """Where each tree starts: nodes that are no node's children."""
        return np.setdiff1d(np.arange(self.nodes_.shape[1]), self.nodes_[1:])

    def _cut_columns(self) -> list[nodes.Node]:
        """Each column as the number that trees cut, in a formula."""
        made: list[nodes.Node] = []
        for each in self._encodings():
            places = dict(enumerate(range(len(each.levels))))
            number = nodes.Number(each.name, each.ends[0], each.ends[1], nodes.LARGEST)
            made.append(nodes.level_of(each, places, each.unseen) if each.nominal else number)
        return made

    def _formulas(
        self, columns: list[nodes.Node], leaf: Callable[[int], nodes.Node]
    ) -> dict[int, nodes.Node]:
        """Each node as cuts, made from the last: children come after their parents."""
        made: dict[int, nodes.Node] = {}
        for node in reversed(range(self.nodes_.shape[1])):
            column, left, right = self.nodes_[:, node].tolist()
            if left < 0:
                made[node] = leaf(node)
                continue
            at = float(self.cuts_[0, node])
            made[node] = nodes.Cut(columns[column], at, made[left], made[right])
        return made

    def _encodings(self, **more: Any) -> list[Encoding]:
        return [replace(each, unseen=each.ends[1]) for each in super()._encodings(**more)]


def _drawn_back(rows: Sample) -> Recalibrator:
    """The recalibrator of a leaf with such rows, drawn towards the identity."""
    if rows.response != "binary":
        return MeanScaling(prior=PRIOR)
    if rows.n_classes == 2:
        return BetaCalibration(l2=PENALTY, towards="identity")
    return DirichletCalibration(l2=0.5 * PENALTY / rows.total, towards="identity")  # against the mean loss


def _check_smallest(name: str, value: Any) -> None:
    if isinstance(value, Integral):
        whole(name, value, 1)
    else:
        number(name, value, 0.0, 0.5, above=True)


class VariableTree(CutColumns):
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

    columns: Any = parameter(check_chosen, default=None)
    leaf: Recalibrator | None = parameter(
        such,
        lambda leaf: isinstance(leaf, Recalibrator) and not leaf.uses_columns,
        "must be a recalibrator of the score",
        default=None,
    )
    max_depth: int = parameter(whole, 1, 64, default=3)
    min_leaf: float = parameter(_check_smallest, default=0.1)
    random_state: int = parameter(whole, 0, 2**32 - 1, default=0)
    leaves_: list[Any] = state("inner", "any")

    def check_state(self) -> None:
        """Refuse a tree that is none, or leaves that do not belong to it."""
        super().check_state()
        if len(self._roots()) != 1:
            raise ValueError("the nodes do not form one tree")
        if [leaf is None for leaf in self.leaves_] != (self.nodes_[1] >= 0).tolist():
            raise ValueError("leaves must hold a recalibrator, inner nodes none")

    def _fit(self, sample: Sample) -> None:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind, learned_on = DecisionTreeClassifier, (sample.outcome, sample.weight)
        favourite = 1 if sample.n_classes == 2 else np.argmax(sample.class_weights)
        target, weights = sample.outcome == favourite, sample.weights
        if sample.response != "binary":
            target, weights = sample.family.target(sample.probability, sample.outcome, weights)
            kind, learned_on = DecisionTreeRegressor, (target, weights)
        chosen = chosen_columns(sample.columns, self.columns)
        self._remember([coded(column, target, weights) for column in chosen])
        numbers = self._numbers(sample.columns)
        edges, codes = codes_between(numbers)
        by_weight = self.min_leaf < 1 and learned_on[1] is not None
        smallest = {"min_weight_fraction_leaf" if by_weight else "min_samples_leaf": self.min_leaf}
        grower = kind(max_depth=self.max_depth, random_state=self.random_state, **smallest)
        self.nodes_, self.cuts_ = tree_of(grower.fit(codes, *learned_on).tree_, edges)
        self.leaves_ = [None] * self.nodes_.shape[1]
        above: dict[int, Sample] = {}  # what the node above has learned from
        for node, rows in self._parts(numbers, np.arange(sample.rows)):
            part = sample.take(rows)
            part = part if part.varied else above[node]
            above |= dict.fromkeys(self.nodes_[1:, node].tolist(), part)
            if self.nodes_[1, node] < 0:
                leaf = self.leaf or _drawn_back(part)
                self.leaves_[node] = leaf.fitted_on(part)

    def _parts(self, numbers: list[Floats], rows: Integers, node: int = 0) -> Iterator[tuple[int, Integers]]:
        """Each node, and those of the rows that pass it, from the root down."""
        yield node, rows
        column, left, right = self.nodes_[:, node].tolist()
        if left >= 0:
            goes_left = numbers[column][rows] <= self.cuts_[0, node]
            yield from self._parts(numbers, rows[goes_left], left)
            yield from self._parts(numbers, rows[~goes_left], right)

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        out = np.empty((len(probability), self.n_classes_))
        for node, rows in self._parts(self._numbers(columns), np.arange(len(probability))):
            leaf = self.leaves_[node]
            if leaf is not None:
                out[rows] = leaf.mapped(probability[rows])
        return out

    def _formula(self) -> nodes.Formula:
        return self._formulas(self._cut_columns(), lambda node: self.leaves_[node].formula())[0]

    @classmethod
    def _candidates(cls, sample: Sample) -> dict[str, Recalibrator]:
        return {f"{cls.__name__}({name})": cls(columns=[name]) for name in sample.numbers()}

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
