"""What the neighbourhood metrics are given beside outcomes and probabilities: features, bandwidths, queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from miscal.data.checks import check_lengths, numbers, probability_matrix, refuse_rows
from miscal.data.columns import Column, column
from miscal.data.errors import refusal
from miscal.data.frames import frame_of
from miscal.data.vectors import flat

KERNELS = ("laplacian", "gaussian", "group")
DEVICES = ("auto", "cpu", "cuda")
LARGEST = 1e150  # squares of features and their sums must stay finite

Kernel = str | Callable[[np.ndarray, np.ndarray], Any]


def feature_matrix(features: Any, where: str = "'features'") -> np.ndarray:
    """Finite numbers as (n, d) float64, used as given; (n,) is one feature."""
    table = _table(features, where)
    stacked = _numbers(table, where) if isinstance(table, np.ndarray) else _number_columns(table, where)
    matrix = np.ascontiguousarray(stacked, dtype=np.float64)
    bad = ~(np.abs(matrix) <= LARGEST)
    if bad.any():
        rows = np.asarray(bad.any(axis=1))
        row = int(np.argmax(rows))
        place = int(np.argmax(bad[row]))
        name = str(place) if isinstance(table, np.ndarray) else f"'{list(table)[place]}'"
        missing = bool(np.isnan(matrix[row, place]))
        what = "must not be missing" if missing else "must be finite numbers below 1e150"
        hint = "fill in the missing values, or leave these rows out" if missing else ""
        refuse_rows(rows, what, f"{where} column {name}", matrix[:, place], hint)
    return matrix


def _table(features: Any, where: str) -> Mapping[str, Any] | np.ndarray:
    """A frame as named vectors, anything else as an array (n,) or (n, d)."""
    frame = isinstance(features, dict) or hasattr(features, "columns") or hasattr(features, "column_names")
    if frame and not isinstance(features, np.ndarray):
        table = frame_of(features, where)
        if not len(table):
            raise refusal("must have at least one column", where=where, got="it has none")
        return table
    try:
        array = np.asarray(features)
    except (TypeError, ValueError) as error:
        raise refusal("must be (n, d) or (n,)", where=where, got=str(error)) from error
    if array.ndim not in (1, 2):
        raise refusal("must be (n, d) or (n,)", where=where, got=f"its shape is {array.shape}")
    if array.ndim == 2 and not array.shape[1]:
        raise refusal("must have at least one column", where=where, got=f"its shape is {array.shape}")
    return array


def _numbers(array: np.ndarray, where: str) -> np.ndarray:
    if array.ndim == 1:
        return numbers(flat(array, where), where, "must hold numbers")[:, None]
    if array.dtype.kind not in "biuf":
        hint = "one-hot encode categories"
        raise refusal("must hold numbers", where=where, got=f"its dtype is {array.dtype}", hint=hint)
    return array


def _number_columns(table: Mapping[str, Any], where: str) -> np.ndarray:
    columns = {f"{where} column '{name}'": column(name, table[name], f"{where} column '{name}'") for name in table}
    for place, values in columns.items():
        if values.kind in {"category", "date"}:
            hint = "one-hot encode it, or use kernel='group'" if values.nominal else "turn it into a number of days"
            raise refusal("must hold numbers", where=place, got=f"its kind is {values.kind}", hint=hint)
    check_lengths({place: len(values) for place, values in columns.items()})
    return np.column_stack([np.where(each.missing, np.nan, each.values) for each in columns.values()])


def group_matrix(
    features: Any, query_features: Any = None, where: str = "'features'"
) -> tuple[np.ndarray, np.ndarray | None]:
    """Levels as whole numbers, the same numbers for the queries; missing is a level of its own."""
    levels = _level_columns(features, where)
    coded = np.column_stack([each.values.astype(np.float64) for each in levels])
    if query_features is None:
        return coded, None
    asked = _level_columns(query_features, "'queries' features")
    if len(asked) != len(levels):
        raise refusal(f"must have {len(levels)} columns", where="'queries' features", got=f"it has {len(asked)}")
    return coded, np.column_stack([_same_codes(each, other) for each, other in zip(levels, asked, strict=True)])


def _level_columns(features: Any, where: str) -> list[Column]:
    table = _table(features, where)
    if not isinstance(table, np.ndarray):
        given = list(table.values())
    else:
        given = [features] if table.ndim == 1 else list(table.T)
    levels = [column(f"feature {place}", values, where=where).as_levels() for place, values in enumerate(given)]
    check_lengths({f"{where} column {place}": len(each) for place, each in enumerate(levels)})
    return levels


def _same_codes(levels: Column, other: Column) -> np.ndarray:
    """Codes of values in the levels of another column; levels it does not have get numbers of their own."""
    known = {level: code for code, level in enumerate(levels.levels)}
    table = [known.get(level, len(known) + extra) for extra, level in enumerate(other.levels)]
    return np.array([*table, -1], dtype=np.float64)[other.values]


def bandwidth_array(bandwidth: Any) -> tuple[np.ndarray, bool]:
    """Bandwidths as (b,) and whether a single one was given."""
    try:
        values = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim > 1 or values.size == 0 or not (values > 0).all():
        raise refusal("must be a number or numbers above 0", where="'bandwidth'", got=f"it is {bandwidth!r}")
    return values.reshape(-1), values.ndim == 0


def check_kernel(kernel: Any) -> None:
    """Refuse a kernel that is neither known by name nor a function."""
    if not callable(kernel) and kernel not in KERNELS:
        names = ", ".join(f"'{name}'" for name in KERNELS)
        raise refusal(f"must be {names} or a function of two arrays", where="'kernel'", got=f"it is {kernel!r}")


def check_device(device: Any) -> None:
    """Refuse a device that is unknown or not here."""
    if device not in DEVICES:
        raise refusal("must be 'auto', 'cpu' or 'cuda'", where="'device'", got=f"it is {device!r}")
    if device == "cuda":
        from miscal.kernels.neighbours import device_available

        if not device_available():
            hint = "use device='auto', or install torch and triton on a machine with a GPU"
            raise refusal("cannot be 'cuda'", where="'device'", got="there is no GPU that torch can use", hint=hint)


def query_predictions(query_prob: Any, target: str, n_classes: int) -> np.ndarray:
    """The predicted values of queries under the target that the data have."""
    where = "'queries' probabilities"
    probability, _ = probability_matrix(query_prob, where)
    if probability.ndim == 2 and probability.shape[1] != n_classes:
        raise refusal(f"must have {n_classes} columns", where=where, got=f"it has {probability.shape[1]}")
    if probability.ndim == 1 and n_classes > 2:
        raise refusal(f"must have {n_classes} columns", where=where, got="it has one value a row")
    matrix = probability if probability.ndim == 2 else np.column_stack([1.0 - probability, probability])
    if target == "top":
        return np.asarray(matrix.max(axis=1))
    return np.ascontiguousarray(matrix[:, 1 if target in {"positive", "auto"} else int(target)])
