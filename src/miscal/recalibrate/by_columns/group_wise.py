"""Any recalibrator within groups, with policies for small, unseen and missing groups."""

import operator
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from miscal.cells.coding import Encoding
from miscal.codes.data import Response
from miscal.data.arrays import Array, Floats
from miscal.data.checks import number, one_of, refuse_rows, truth, whole
from miscal.data.columns import Columns
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.base import ColumnRecalibrator
from miscal.recalibrate.certain_scores import HALF_EVENT
from miscal.recalibrate.parameters import (
    check_column_choice,
    check_that,
    chosen_columns,
    parameter,
    state,
)
from miscal.recalibrate.probability_arrays import normalised_matrix
from miscal.recalibrate.training_sample import TrainingSample

UNKNOWN_POLICIES = ("parent", "global", "identity", "error")
#: Rows that a parent may count for; the last makes all groups alike.
PARENT_STRENGTHS = (0.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 1e4, 1e12)
#: Relative difference of losses below which strengths do equally well.
LOSS_TIE = 1e-9

#: Codes of levels, from the first column on; that of all rows is empty.
GroupKey: TypeAlias = tuple[int, ...]
GroupMaps: TypeAlias = dict[GroupKey, Any]
#: Rows of a group, how many rows its map was fitted on, and what it predicts.
GroupPrediction: TypeAlias = tuple[Array, int, Floats]


def _is_recalibrator(value: Any) -> bool:
    return isinstance(value, Recalibrator)


class GroupWise(ColumnRecalibrator):
    """Fit a recalibrator within each group, shrunk towards that of its parent.

    Groups are the combinations of the columns' levels (each distinct number is a level; missing is a level). The parent
    of a group is what is left without its last column, and at the end all rows. With ``pooling`` a group of n rows
    predicts n/(n + s) of its own map and s/(n + s) of its parent's prediction; s, the rows that a parent counts for, is
    chosen on the other half of the rows (log loss, both halves in turn); it is never less than one row (``2 smooth``),
    so that a group whose own map gives 0 or 1 does not rule out what was not observed. Groups with fewer than
    ``min_rows`` rows, or with one class only, have no map of their own. Does not keep the ranking. Of means,
    ``MeanScaling()`` within is a factor per group, and s is chosen by deviance.

    Parameters
    ----------
    recalibrator : Recalibrator
        What is fitted; it is copied, not changed.
    columns : str, int, or list of these, optional
        Names or positions of columns of X, from the coarsest to the finest; all by default.
    min_rows : int, default=50
        Fewest rows of a group with a map of its own.
    handle_unknown : {"parent", "global", "identity", "error"}, default="parent"
        What a small or unseen group takes: the map of the nearest parent that has one, the map of all rows, its own
        probabilities, or (unseen groups only) an error; small groups then take their parent's map.
    pooling : bool, default=True
        Whether groups are shrunk towards their parents.
    smooth : float, default=0.5
        Half of the rows that a parent counts for at least; 0: none, so that without pooling groups stand alone.

    Attributes
    ----------
    keys_ : list of list of int
        Codes of the levels of each group with a map; the first is that of all rows, empty.
    maps_ : list of Recalibrator
        The fitted map of each.
    groups_ : int
        Groups with a map of their own.
    strength_ : float
        Rows that a parent counts for.

    Examples
    --------
    >>> from miscal.recalibrate import HistogramBinning
    >>> y_prob, y, sex = [0.6] * 6, [1, 1, 0, 0, 0, 1], ["f", "f", "f", "m", "m", "m"]
    >>> model = GroupWise(HistogramBinning(), min_rows=3, pooling=False, smooth=0)
    >>> model = model.fit(y_prob, y, {"sex": sex})
    >>> model.predict_proba([0.6, 0.6, 0.6], {"sex": ["f", "m", "x"]})[:, 1].round(3)
    array([0.667, 0.333, 0.5  ])
    """

    responses = RESPONSES
    recalibrator: Any = parameter(check_that, _is_recalibrator, "must be a recalibrator")
    columns: Any = parameter(check_column_choice, default=None)
    min_rows: int = parameter(whole, 1, default=50)
    handle_unknown: str = parameter(one_of, UNKNOWN_POLICIES, default="parent")
    pooling: bool = parameter(truth, default=True)
    smooth: float = parameter(number, 0.0, default=HALF_EVENT)
    keys_: list[Any] = state("levels")
    maps_: list[Any] = state("inner")
    strength_: float = state("float", low=0.0)

    def check_state(self) -> None:
        """Reject parts that do not belong together."""
        super().check_state()
        if len(self.keys_) != len(self.maps_) or self.keys_[0]:
            raise ValueError("the groups differ in number, or the first is not that of all rows")
        codes = [range(len(levels)) for levels in self.levels_]
        known = [len(key) <= len(codes) and all(map(operator.contains, codes, key)) for key in self.keys_]
        if not all(known):
            raise ValueError("a group has a level that is not there")

    @property
    def groups_(self) -> int:
        """Groups with a map of their own."""
        return len(self.maps_) - 1

    # --------------------------------------------------------------------------------------------------------- fit
    def _fit(self, sample: TrainingSample) -> None:
        columns = chosen_columns(sample.columns, self.columns)
        self._store_encodings([Encoding.learned(column, nominal=True) for column in columns])
        strength = self._chosen_strength(sample) if self.pooling else 0.0
        self.strength_ = max(strength, 2.0 * self.smooth)
        maps = self._fitted_maps(sample, self.min_rows)
        self.keys_ = list(map(list, maps))
        self.maps_ = list(maps.values())

    def _codes(self, columns: Columns) -> Array:
        """Codes of each row's levels, (n, columns); -1 where fit had no such level."""
        return np.stack([encoding.read(columns) for encoding in self._column_encodings()], axis=1)

    def _group_rows(self, columns: Columns) -> Iterator[tuple[GroupKey, Array]]:
        """Each group's key and rows, parents first, and these only where their maps are used."""
        codes = self._codes(columns)
        depth = codes.shape[1]
        first_depth = 1 if self.handle_unknown in ("parent", "error") else depth
        for used in range(first_depth, depth + 1):
            keys, place, size = np.unique(codes[:, :used], axis=0, return_inverse=True, return_counts=True)
            order = np.argsort(place.reshape(-1), kind="stable")
            rows = np.split(order, np.cumsum(size))[:-1]
            yield from zip(map(tuple, keys.tolist()), rows, strict=True)

    def _fitted_maps(self, sample: TrainingSample, min_rows: int) -> GroupMaps:
        """The map of all rows, and that of each group; warnings of small groups are not for the user."""
        maps: GroupMaps = {(): self.recalibrator.fit_copy_quietly(sample)}
        for key, rows in self._group_rows(sample.columns):
            if rows.size < min_rows:
                continue
            group = sample.take(rows)
            if group.has_variation:
                maps[key] = self.recalibrator.fit_copy_quietly(group)
        return maps

    def _chosen_strength(self, sample: TrainingSample) -> float:
        """The strength of least loss on the half that was not fitted on; of ties the largest."""
        half = np.random.default_rng(0).permutation(sample.rows) % 2 == 0
        loss = np.zeros(len(PARENT_STRENGTHS))
        for fitted_half in (half, ~half):
            fitted, test = sample.take(fitted_half), sample.take(~fitted_half)
            if not test.rows or not fitted.has_variation:
                return PARENT_STRENGTHS[-1]
            maps = self._fitted_maps(fitted, max(1, self.min_rows // 2))
            predictions = self._group_predictions(maps, test.probability, test.columns)
            loss += [
                test.weights @ test.losses(_pooled(predictions, strength)) for strength in PARENT_STRENGTHS
            ]
        least = loss.min()
        # Without evidence groups are alike.
        return PARENT_STRENGTHS[np.flatnonzero(loss <= least + LOSS_TIE * abs(least))[-1]]

    # --------------------------------------------------------------------------------------------------------- map
    def _maps(self) -> GroupMaps:
        """The map of each group by the codes of its levels; a parent's key is shorter."""
        return dict(zip(map(tuple, self.keys_), self.maps_, strict=True))

    def _group_predictions(
        self, maps: GroupMaps, probability: Floats, columns: Columns
    ) -> list[GroupPrediction]:
        """The rows of each group that has a map, its size and what its map predicts, parents first."""
        predictions = []
        for key, rows in [((), np.arange(len(probability))), *self._group_rows(columns)]:
            group_map = maps.get(key)
            if group_map is not None:
                mapped = group_map.map_checked(probability[rows], columns.take(rows))
                predictions.append((rows, group_map.n_rows_, mapped))
        return predictions

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        if self.handle_unknown == "error":
            self._reject_unknown_levels(columns)
        maps = self._maps()
        out = _pooled(self._group_predictions(maps, probability, columns), self.strength_)
        if self.handle_unknown == "identity":
            keys = map(tuple, self._codes(columns).tolist())
            unknown = np.array([key not in maps for key in keys], dtype=bool)
            out[unknown] = normalised_matrix(probability[unknown])
        return out

    def _reject_unknown_levels(self, columns: Columns) -> None:
        """Raise an error at the first row with a level that fit did not have."""
        for encoding in self._column_encodings():
            column = columns.find(encoding.name).as_levels()
            levels = np.array([*column.levels, None], object)[column.values]
            requirement, where = "must have the levels that fit had", f"'X' column '{encoding.name}'"
            refuse_rows(encoding.read(columns) < 0, requirement, where, levels, "use handle_unknown='parent'")

    def _formula(self) -> nodes.Formula:
        encodings, maps = self._column_encodings(), self._maps()
        formula: nodes.Node = maps.pop(()).formula()
        for depth in sorted({len(encodings), *map(len, maps)}):
            parent, groups = nodes.Name(f"parent_{depth}"), {}
            for key, group_map in maps.items():
                share = group_map.n_rows_ / (group_map.n_rows_ + self.strength_)
                if len(key) == depth:
                    groups[key] = nodes.Linear(((share, group_map.formula()), (1.0 - share, parent)))
            # With the identity there is one depth only.
            otherwise = nodes.PROBABILITY if self.handle_unknown == "identity" else parent
            formula = nodes.Named(parent.name, formula, _matched_level(encodings, groups, otherwise))
        if self.handle_unknown == "error":
            for encoding in encodings:
                known = nodes.level_of(encoding, dict.fromkeys(range(len(encoding.levels)), 0.0), 1.0)
                formula = nodes.Cut(known, 0.5, formula, nodes.Refused())
        return formula

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        from miscal.recalibrate.logistic_curves import PlattScaling
        from miscal.recalibrate.mean_scaling import MeanScaling

        inner = PlattScaling() if sample.response == Response.BINARY else MeanScaling()
        return {f"{cls.__name__}({name})": cls(inner, columns=[name]) for name in sample.category_names()}

    def _summary(self) -> str:
        if self.strength_ >= PARENT_STRENGTHS[-1]:
            return f"{self.groups_} groups, all alike: none differs significantly from its parent"
        counts = f", a parent counts for {self.strength_:,.0f} rows" if self.pooling else ""
        return f"{self.groups_} groups{counts}"


def _matched_level(
    encodings: list[Encoding], groups: Mapping[GroupKey, nodes.Node], otherwise: nodes.Node
) -> nodes.Node:
    """The expression of the group whose levels match, one column after another."""
    if () in groups:
        return groups[()]
    by_code: dict[int, dict[GroupKey, nodes.Node]] = {}
    for key, node in groups.items():
        by_code.setdefault(key[0], {})[key[1:]] = node
    level = nodes.level_of(encodings[0], {code: 1.0 + i for i, code in enumerate(by_code)}, 0.0)
    cases = [_matched_level(encodings[1:], below, otherwise) for below in by_code.values()]
    return nodes.Match(level, (otherwise, *cases))


def _pooled(predictions: list[GroupPrediction], strength: float) -> Floats:
    """Each group's prediction shrunk towards that of its parent; one without a map takes its parent's."""
    out = predictions[0][2].copy()
    for rows, size, mapped in predictions[1:]:
        share = size / (size + strength)
        out[rows] = share * mapped + (1.0 - share) * out[rows]
    return out
