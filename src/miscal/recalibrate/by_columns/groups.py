"""Any recalibrator within groups, with its policies for small, unseen and missing groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.data.checks import number, one_of, truth, whole
from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal
from miscal.data.responses import RESPONSES
from miscal.data.vectors import Array, Floats
from miscal.pooling.columns import Encoding
from miscal.recalibrate.base import ByColumns, Recalibrator, as_rows
from miscal.recalibrate.declared import check_chosen, chosen_names, columns_of, parameter, state
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.sample import HALF, Sample

POLICIES = ("parent", "global", "identity", "error")
STRENGTHS = (0.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 1e4, 1e12)  # rows that the parent counts for
ANY = -2  # stands for every level of a column in the key of a parent


def _check_recalibrator(name: str, given: Any) -> None:
    if not isinstance(given, Recalibrator):
        raise refusal("must be a recalibrator, such as PlattScaling()", where=f"'{name}'", got=f"got {given!r}")
    given.check_parameters()


class GroupWise(ByColumns):
    """Fit a recalibrator within each group, drawn towards that of its parent.

    Groups are the combinations of the columns' levels (each distinct number is a level; missing is a level). The parent
    of a group is what is left without its last column, and at the end all rows. With ``pooling`` a group of n rows
    predicts n/(n + s) of its own map and s/(n + s) of its parent's prediction; s, the rows that a parent counts for, is
    chosen on the other half of the rows (log loss, both halves in turn); it is never less than one row (``2 smooth``),
    so that a group whose own map is certain does not rule out what was not seen. Groups with fewer than ``min_rows``
    rows, or with one class only, have no map of their own. Does not keep the ranking. Of means, ``MeanScaling()``
    within is a factor a group, and s is chosen by deviance.

    Parameters
    ----------
    recalibrator : Recalibrator
        What is fitted; the one given is not changed.
    columns : names or positions of columns of X; None: all
        From the coarsest to the finest.
    min_rows : int
    handle_unknown : {"parent", "global", "identity", "error"}
        What a small or unseen group takes: the map of the nearest parent that has one, the map of all rows, its own
        probabilities, or (unseen groups only) an error; small groups then take their parent's map.
    pooling : bool
    smooth : float
        Half of the rows that a parent counts for at least; 0: none, so that without pooling groups stand alone.

    Attributes
    ----------
    groups_ : int
        Groups with a map of their own.
    strength_ : float
        Rows that a parent counts for.

    Examples
    --------
    >>> from miscal.recalibrate import HistogramBinning
    >>> y_prob, y, sex = [0.6] * 6, [1, 1, 0, 0, 0, 1], ["f", "f", "f", "m", "m", "m"]
    >>> model = GroupWise(HistogramBinning(), min_rows=3, pooling=False, smooth=0).fit(y_prob, y, {"sex": sex})
    >>> model.predict_proba([0.6, 0.6, 0.6], {"sex": ["f", "m", "x"]})[:, 1].round(3)
    array([0.667, 0.333, 0.5  ])
    """

    responses: ClassVar[tuple[str, ...]] = RESPONSES
    recalibrator: Any = parameter(_check_recalibrator)
    columns: Any = parameter(check_chosen, default=None)
    min_rows: int = parameter(whole, 1, default=50)
    handle_unknown: str = parameter(one_of, POLICIES, default="parent")
    pooling: bool = parameter(truth, default=True)
    smooth: float = parameter(number, 0.0, default=HALF)
    keys_: Array = state("int", "any", low=ANY)
    sizes_: Array = state("int", "any", low=1)
    maps_: list[Any] = state("inner")
    whole_: list[Any] = state("inner")
    strength_: float = state("float", low=0.0)

    def check_state(self) -> None:
        """Refuse parts that do not belong together."""
        super().check_state()
        groups = len(self.sizes_)
        if len(self.keys_) != groups * len(self.names_):
            raise ValueError("the columns differ in number")
        if len(self.maps_) != groups or len(self.whole_) != 1:
            raise ValueError("the groups differ in number")

    @property
    def groups_(self) -> int:
        """Groups with a map of their own."""
        return len(self.maps_)

    # -------------------------------------------------------------------------------------------------- to learn
    def _fit(self, sample: Sample) -> None:
        names = chosen_names(sample.columns, self.columns)
        self._remember([Encoding.learned(sample.columns.find(name), nominal=True) for name in names])
        codes = self._codes(sample.columns)
        strength = self._chosen_strength(sample, codes) if self.pooling else 0.0
        self.strength_ = max(strength, 2.0 * float(self.smooth))
        keys, self.sizes_, self.maps_, self.whole_ = self._fitted(sample, codes, int(self.min_rows))
        self.keys_ = keys.reshape(-1)

    def _codes(self, columns: Columns) -> Array:
        """Places of each row's levels, (n, columns); -1 where fit had no such level."""
        return np.stack([each.read(columns) for each in self._encodings()], axis=1)

    def _depths(self, depth: int) -> range:
        """How many columns of the keys count, at each stage: parents only where they are asked for."""
        return range(1 if self.handle_unknown in ("parent", "error") else depth, depth + 1)

    def _fitted(self, sample: Sample, codes: Array, least: int) -> tuple[Array, Array, list[Any], list[Any]]:
        keys: list[list[int]] = []
        sizes: list[int] = []
        maps: list[Any] = []
        for depth in self._depths(codes.shape[1]):
            found, place = np.unique(codes[:, :depth], axis=0, return_inverse=True)
            order = np.argsort(place.reshape(-1), kind="stable")
            counts = np.bincount(place.reshape(-1), minlength=len(found))
            for key, rows in zip(found, np.split(order, np.cumsum(counts)[:-1]), strict=True):
                if rows.size < least or (sample.response == "binary" and np.unique(sample.outcome[rows]).size < 2):
                    continue
                keys.append([*key.tolist(), *[ANY] * (codes.shape[1] - depth)])
                sizes.append(rows.size)
                # What a small group cannot learn is not worth a warning each.
                maps.append(self.recalibrator.quietly_fitted_on(sample.take(rows)))
        shape = np.array(keys, dtype=np.int64).reshape(-1, codes.shape[1])
        return shape, np.array(sizes, dtype=np.int64), maps, [self.recalibrator.quietly_fitted_on(sample)]

    def _chosen_strength(self, sample: Sample, codes: Array) -> float:
        """The strength with the smallest loss on the half that was not fitted on."""
        half = np.random.default_rng(0).permutation(sample.rows) % 2 == 0
        loss = np.zeros(len(STRENGTHS))
        for inside in (half, ~half):
            fitted, asked = sample.take(np.flatnonzero(inside)), sample.take(np.flatnonzero(~inside))
            alike = sample.response == "binary" and np.unique(fitted.outcome).size < 2
            if alike or not asked.rows:
                return STRENGTHS[-1]
            keys, sizes, maps, whole = self._fitted(fitted, codes[inside], max(1, int(self.min_rows) // 2))
            chain = _chain(keys, codes[~inside], self._depths(codes.shape[1]))
            beside = _predicted(maps, whole, chain, asked.probability, asked.columns)
            for place, strength in enumerate(STRENGTHS):
                loss[place] += float(asked.weights @ asked.losses(_mixed(beside, chain, sizes, strength)))
        best = float(loss.min())
        # Of strengths that do equally well the largest: without evidence groups are alike.
        return STRENGTHS[int(np.flatnonzero(loss <= best + 1e-9 * abs(best))[-1])]

    # ------------------------------------------------------------------------------------------------ to predict
    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        codes, chain = self._placed(columns)
        unknown = chain[-1] < 0
        if self.handle_unknown == "error":
            self._refuse_unseen(codes, columns)
        beside = _predicted(self.maps_, self.whole_, chain, probability, columns)
        out = _mixed(beside, chain, self.sizes_, self.strength_)
        if self.handle_unknown == "identity" and unknown.any():
            out[unknown] = as_rows(probability[unknown])
        return out

    def _placed(self, columns: Columns) -> tuple[Array, list[Array]]:
        """Each row's codes, and the places of its maps."""
        codes = self._codes(columns)
        return codes, _chain(self.keys_.reshape(-1, codes.shape[1]), codes, self._depths(codes.shape[1]))

    def unknown(self, y_prob: Any, X: Any) -> Array:
        """Which rows are of small or unseen groups, (n,) booleans."""
        self.check_fitted()
        return self._placed(columns_of(X, len(self.checked(y_prob)), "GroupWise"))[1][-1] < 0

    def _formula(self) -> nodes.Formula:
        if self.recalibrator.uses_columns:
            got = f"its groups hold {type(self.recalibrator).__name__}"
            raise refusal("has a formula if its groups' maps are of the score", where="GroupWise", got=got)
        names, width = tuple(str(name) for name in self.names_), len(self.names_)
        kinds = tuple(nodes.kind_of(levels) for levels in self.levels_)
        keys, shares = self.keys_.reshape(-1, width).tolist(), self.sizes_ / (self.sizes_ + self.strength_)
        identity = self.handle_unknown == "identity"  # which has one depth only
        out: nodes.Node = self.whole_[0].formula()
        for depth in self._depths(width):
            at = [i for i, key in enumerate(keys) if key[depth - 1] != ANY and all(c == ANY for c in key[depth:])]
            parent, own = nodes.Name(f"parent_{depth}"), {}
            for i in at:
                terms = (float(shares[i]), self.maps_[i].formula()), (1.0 - float(shares[i]), parent)
                own[tuple(self.levels_[j][keys[i][j]] for j in range(depth))] = nodes.Linear(terms, 0.0)
            if at:
                inside = nodes.Match(names[:depth], kinds[:depth], own, nodes.PROBABILITY if identity else parent)
                out = nodes.Named(parent.name, out, inside)
            elif identity:
                out = nodes.PROBABILITY
        if self.handle_unknown == "error":
            for each in self._encodings():
                out = nodes.Cut(nodes.level_of(each, [0.0] * len(each.levels), 1.0), 0.5, out, nodes.Refused())
        return out

    @classmethod
    def _candidates(cls, n_classes: int, columns: Mapping[str, Column], response: str) -> dict[str, Recalibrator]:  # noqa: ARG003
        from miscal.recalibrate.curves import MeanScaling, PlattScaling

        inner = PlattScaling() if response == "binary" else MeanScaling()
        names = [name for name, column in columns.items() if column.nominal and len(column.levels) >= 2]
        return {f"{cls.__name__}({name})": cls(inner, columns=[name]) for name in names}

    def _refuse_unseen(self, codes: Array, columns: Columns) -> None:
        unseen = np.flatnonzero((codes < 0).any(axis=1))
        if unseen.size:
            row = int(unseen[0])
            j = int(np.flatnonzero(codes[row] < 0)[0])
            name = str(self.names_[j])
            column = columns.find(name).as_levels()
            got = f"row {row} has {column.show(int(column.values[row]))}, {unseen.size} such rows in all"
            what = "must have the levels that fit had"
            raise refusal(what, where=f"'X' column '{name}'", got=got, hint="use handle_unknown='parent'")

    def _summary(self) -> str:
        pooled = f", a parent counts for {self.strength_:,.0f} rows" if self.pooling else ""
        if self.strength_ >= STRENGTHS[-1]:
            pooled = ", all alike: none differs from its parent beyond noise"
        return f"{self.groups_} groups{pooled}"


def _chain(keys: Array, codes: Array, depths: range) -> list[Array]:
    """For each row the place of its group's map at every depth, -1 where there is none."""
    found = []
    for depth in depths:
        ends = (keys[:, depth:] == ANY).all(axis=1)
        inside = np.flatnonzero(ends & (keys[:, depth - 1] != ANY))
        both = np.concatenate([keys[inside][:, :depth], codes[:, :depth]])
        places = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
        table = np.full(int(places.max(initial=-1)) + 1, -1, dtype=np.int64)
        table[places[: inside.size]] = inside
        found.append(table[places[inside.size :]])
    return found


def _predicted(
    maps: list[Any], whole: list[Any], chain: list[Array], probability: Floats, columns: Columns
) -> list[Floats]:
    """What the map of all rows and then that of each depth predicts; rows without one are left at 0."""
    made = [whole[0].mapped(probability, columns)]
    for places in chain:
        out = np.zeros(made[0].shape)
        order = np.argsort(places, kind="stable")
        first = np.searchsorted(places[order], np.arange(len(maps) + 1))
        for group in np.unique(places[places >= 0]):
            rows = order[first[group] : first[group + 1]]
            out[rows] = maps[group].mapped(probability[rows], columns.take(rows))
        made.append(out)
    return made


def _mixed(predicted: list[Floats], chain: list[Array], sizes: Array, strength: float) -> Floats:
    """Each depth's prediction drawn towards the one above; a group without a map takes what is above."""
    out = predicted[0].copy()
    for places, own in zip(chain, predicted[1:], strict=True):
        known = np.flatnonzero(places >= 0)
        share = (sizes[places[known]] / (sizes[places[known]] + strength))[:, None]
        out[known] = share * own[known] + (1.0 - share) * out[known]
    return out
