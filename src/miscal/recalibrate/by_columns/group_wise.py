"""Any recalibrator within groups, with its policies for small, unseen and missing groups."""

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Floats
from miscal.data.checks import number, one_of, refuse_rows, truth, whole
from miscal.data.columns import Columns
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.base import ColumnRecalibrator
from miscal.recalibrate.certain_scores import HALF_EVENT
from miscal.recalibrate.parameters import check_column_choice, check_that, chosen_columns, parameter, state
from miscal.recalibrate.probability_arrays import normalised_matrix
from miscal.recalibrate.training_sample import TrainingSample

UNKNOWN_POLICIES = ("parent", "global", "identity", "error")
PARENT_STRENGTHS = (
    0.0,
    10.0,
    30.0,
    100.0,
    300.0,
    1000.0,
    3000.0,
    1e4,
    1e12,
)  # rows that the parent counts for
GroupKey = tuple[int, ...]  # places of levels, from the first column on
GroupMaps = dict[GroupKey, Any]
GroupPrediction = tuple[
    Array, int, Floats
]  # rows of a group, how many it was fitted on, and what its map predicts


class GroupWise(ColumnRecalibrator):
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
    >>> model = GroupWise(HistogramBinning(), min_rows=3, pooling=False, smooth=0).fit(
    ...     y_prob, y, {"sex": sex}
    ... )
    >>> model.predict_proba([0.6, 0.6, 0.6], {"sex": ["f", "m", "x"]})[:, 1].round(3)
    array([0.667, 0.333, 0.5  ])
    """

    responses = RESPONSES
    recalibrator: Any = parameter(
        check_that, lambda given: isinstance(given, Recalibrator), "must be a recalibrator"
    )
    columns: Any = parameter(check_column_choice, default=None)
    min_rows: int = parameter(whole, 1, default=50)
    handle_unknown: str = parameter(one_of, UNKNOWN_POLICIES, default="parent")
    pooling: bool = parameter(truth, default=True)
    smooth: float = parameter(number, 0.0, default=HALF_EVENT)
    keys_: list[Any] = state("levels")
    maps_: list[Any] = state("inner")
    strength_: float = state("float", low=0.0)

    def check_state(self) -> None:
        """Refuse parts that do not belong together."""
        super().check_state()
        if len(self.keys_) != len(self.maps_) or self.keys_[0]:
            raise ValueError("the groups differ in number, or the first is not that of all rows")
        places = [range(len(levels)) for levels in self.levels_]
        fitting = [len(key) <= len(places) and all(map(operator.contains, places, key)) for key in self.keys_]
        if not all(fitting):
            raise ValueError("a group has a level that is not there")

    @property
    def groups_(self) -> int:
        """Groups with a map of their own."""
        return len(self.maps_) - 1

    # -------------------------------------------------------------------------------------------------- to learn
    def _fit(self, sample: TrainingSample) -> None:
        chosen = chosen_columns(sample.columns, self.columns)
        self._store_encodings([Encoding.learned(each, nominal=True) for each in chosen])
        strength = self._chosen_strength(sample) if self.pooling else 0.0
        self.strength_ = max(strength, 2.0 * self.smooth)
        found = self._fitted(sample, self.min_rows)
        self.keys_ = list(map(list, found))
        self.maps_ = list(found.values())

    def _codes(self, columns: Columns) -> Array:
        """Places of each row's levels, (n, columns); -1 where fit had no such level."""
        return np.stack([each.read(columns) for each in self._column_encodings()], axis=1)

    def _parts(self, columns: Columns) -> Iterator[tuple[GroupKey, Array]]:
        """Each group's key and rows, parents first, and these only where they are asked for."""
        codes = self._codes(columns)
        depth = codes.shape[1]
        for used in range(1 if self.handle_unknown in ("parent", "error") else depth, depth + 1):
            found, place, size = np.unique(codes[:, :used], axis=0, return_inverse=True, return_counts=True)
            order = np.argsort(place.reshape(-1), kind="stable")
            parts = np.split(order, np.cumsum(size))[:-1]
            yield from zip(map(tuple, found.tolist()), parts, strict=True)

    def _fitted(self, sample: TrainingSample, least: int) -> GroupMaps:
        """The map of all rows, and that of each group: what a small one cannot learn is not worth a warning each."""
        made: GroupMaps = {(): self.recalibrator.fit_copy_quietly(sample)}
        for key, rows in self._parts(sample.columns):
            if rows.size < least:
                continue
            part = sample.take(rows)
            if part.has_variation:
                made[key] = self.recalibrator.fit_copy_quietly(part)
        return made

    def _maps(self) -> GroupMaps:
        """The map of each group by the places of its levels; a parent's key is shorter, that of all rows empty."""
        return dict(zip(map(tuple, self.keys_), self.maps_, strict=True))

    def _predicted(self, maps: GroupMaps, probability: Floats, columns: Columns) -> list[GroupPrediction]:
        """The rows of each group that has a map, its size and what its map predicts, parents first."""
        found = []
        for key, rows in [((), np.arange(len(probability))), *self._parts(columns)]:
            one = maps.get(key)
            if one is not None:
                mapped = one.map_checked(probability[rows], columns.take(rows))
                found.append((rows, one.n_rows_, mapped))
        return found

    def _chosen_strength(self, sample: TrainingSample) -> float:
        """The strength with the smallest loss on the half that was not fitted on."""
        half = np.random.default_rng(0).permutation(sample.rows) % 2 == 0
        loss = np.zeros(len(PARENT_STRENGTHS))
        for inside in (half, ~half):
            fitted, asked = sample.take(inside), sample.take(~inside)
            if not asked.rows or not fitted.has_variation:
                return PARENT_STRENGTHS[-1]
            maps = self._fitted(fitted, max(1, self.min_rows // 2))
            parts = self._predicted(maps, asked.probability, asked.columns)
            loss += [asked.weights @ asked.losses(_pooled(parts, strength)) for strength in PARENT_STRENGTHS]
        best = loss.min()
        # Of strengths that do equally well the largest: without evidence groups are alike.
        return PARENT_STRENGTHS[np.flatnonzero(loss <= best + 1e-9 * abs(best))[-1]]

    # ------------------------------------------------------------------------------------------------ to predict
    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        if self.handle_unknown == "error":
            for each in self._column_encodings():
                column = columns.find(each.name).as_levels()
                given = np.array([*column.levels, None], object)[column.values]
                what, where = "must have the levels that fit had", f"'X' column '{each.name}'"
                refuse_rows(each.read(columns) < 0, what, where, given, "use handle_unknown='parent'")
        maps = self._maps()
        out = _pooled(self._predicted(maps, probability, columns), self.strength_)
        if self.handle_unknown == "identity":
            keys = map(tuple, self._codes(columns).tolist())
            unknown = np.array([key not in maps for key in keys], dtype=bool)
            out[unknown] = normalised_matrix(probability[unknown])
        return out

    def _formula(self) -> nodes.Formula:
        encodings, maps = self._column_encodings(), self._maps()
        out: nodes.Node = maps.pop(()).formula()
        for depth in sorted({len(encodings), *map(len, maps)}):
            parent, own = nodes.Name(f"parent_{depth}"), {}
            for key, one in maps.items():
                share = one.n_rows_ / (one.n_rows_ + self.strength_)
                if len(key) == depth:
                    own[key] = nodes.Linear(((share, one.formula()), (1.0 - share, parent)))
            # The identity has one depth only.
            otherwise = nodes.PROBABILITY if self.handle_unknown == "identity" else parent
            out = nodes.Named(parent.name, out, _matched_level(encodings, own, otherwise))
        if self.handle_unknown == "error":
            for each in encodings:
                known = nodes.level_of(each, dict.fromkeys(range(len(each.levels)), 0.0), 1.0)
                out = nodes.Cut(known, 0.5, out, nodes.Refused())
        return out

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        from miscal.recalibrate.logistic_curves import PlattScaling
        from miscal.recalibrate.mean_scaling import MeanScaling

        inner = PlattScaling() if sample.response == "binary" else MeanScaling()
        return {f"{cls.__name__}({name})": cls(inner, columns=[name]) for name in sample.category_names()}

    def _summary(self) -> str:
        if self.strength_ >= PARENT_STRENGTHS[-1]:
            return f"{self.groups_} groups, all alike: none differs from its parent beyond noise"
        counts = f", a parent counts for {self.strength_:,.0f} rows" if self.pooling else ""
        return f"{self.groups_} groups{counts}"


def _matched_level(
    encodings: list[Encoding], own: Mapping[GroupKey, nodes.Node], otherwise: nodes.Node
) -> nodes.Node:
    """The node of the key that the levels match, one column after another."""
    if () in own:
        return own[()]
    below: dict[int, dict[GroupKey, nodes.Node]] = {}
    for key, node in own.items():
        below.setdefault(key[0], {})[key[1:]] = node
    level = nodes.level_of(encodings[0], {code: 1.0 + i for i, code in enumerate(below)}, 0.0)
    cases = [_matched_level(encodings[1:], each, otherwise) for each in below.values()]
    return nodes.Match(level, (otherwise, *cases))


def _pooled(parts: list[GroupPrediction], strength: float) -> Floats:
    """Each group's prediction drawn towards that of its parent; one without a map takes its parent's."""
    out = parts[0][2].copy()
    for rows, size, own in parts[1:]:
        share = size / (size + strength)
        out[rows] = share * own + (1.0 - share) * out[rows]
    return out
