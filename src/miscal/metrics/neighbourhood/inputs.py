"""What the neighbourhood metrics are given beside outcomes and probabilities: features, bandwidths, queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miscal.data.checks import check_lengths, first_row, numbers, probability_matrix, row_refusal
from miscal.data.columns import column
from miscal.data.errors import MiscalError, refusal
from miscal.data.frames import frame_of
from miscal.data.vectors import flat

KERNELS = ("laplacian", "gaussian", "group")
DEVICES = ("auto", "cpu", "cuda")
LARGEST = 1e150  # squares of features and their sums must stay finite

Kernel = str | Callable[[np.ndarray, np.ndarray], Any]


def feature_matrix(features: Any, where: str = "'features'") -> np.ndarray:
    """Finite numbers as (n, d) float64, used as given; (n,) is one feature."""
    matrix = np.ascontiguousarray(_stacked(features, where), dtype=np.float64)
    if matrix.shape[1] == 0:
        raise refusal("must have at least one column", where=where, got=f"its shape is {matrix.shape}")
    row, total = first_row(len(matrix), lambda i, j: np.asarray(~(np.abs(matrix[i:j]) <= LARGEST).all(axis=1)))
    if total:
        place = int(np.argmax(~(np.abs(matrix[row]) <= LARGEST)))
        value = matrix[row, place]
        what = "must not be missing" if np.isnan(value) else "must be finite numbers below 1e150"
        hint = "fill in the missing values, or leave these rows out" if np.isnan(value) else ""
        raise row_refusal(what, f"{where} column {_name(features, place)}", row, value, total, hint)
    return matrix


def _stacked(features: Any, where: str) -> np.ndarray:
    if isinstance(features, np.ndarray) or not _is_frame(features):
        array = features if isinstance(features, np.ndarray) else _array(features, where)
        if array.ndim == 1:
            return numbers(flat(array, where), where, "must hold numbers")[:, None]
        if array.ndim != 2:
            raise refusal("must be (n, d)", where=where, got=f"its shape is {array.shape}")
        if array.dtype.kind not in "biuf":
            raise refusal(
                "must hold numbers", where=where, got=f"its dtype is {array.dtype}", hint="one-hot encode categories"
            )
        return array
    frame = frame_of(features, where)
    if not len(frame):
        raise refusal("must have at least one column", where=where, got="it has none")
    columns = {name: column(name, frame[name], where=f"{where} column '{name}'") for name in frame}
    for name, values in columns.items():
        if values.kind in {"category", "date"}:
            hint = "one-hot encode it, or use kernel='group'" if values.nominal else "turn it into a number of days"
            got = f"its kind is {values.kind}"
            raise refusal("must hold numbers", where=f"{where} column '{name}'", got=got, hint=hint)
    check_lengths({f"{where} column '{name}'": len(values) for name, values in columns.items()})
    return np.column_stack([_with_missing(values) for values in columns.values()])


def _with_missing(values: Any) -> np.ndarray:
    return np.where(values.missing, np.nan, values.values.astype(np.float64))


def _is_frame(features: Any) -> bool:
    return isinstance(features, dict) or hasattr(features, "columns") or hasattr(features, "column_names")


def _array(features: Any, where: str) -> np.ndarray:
    try:
        return np.asarray(features)
    except (TypeError, ValueError) as error:
        raise refusal("must be (n, d) numbers", where=where, got=str(error)) from error


def _name(features: Any, place: int) -> str:
    if not isinstance(features, np.ndarray) and _is_frame(features):
        return f"'{list(frame_of(features, 'features'))[place]}'"
    return str(place)


def group_matrix(
    features: Any, query_features: Any = None, where: str = "'features'"
) -> tuple[np.ndarray, np.ndarray | None]:
    """Levels as whole numbers, the same numbers for the queries; missing is a level of its own."""
    given = _label_columns(features, where)
    asked = None if query_features is None else _label_columns(query_features, "'queries' features")
    if asked is not None and len(asked) != len(given):
        raise refusal(f"must have {len(given)} columns", where="'queries' features", got=f"it has {len(asked)}")
    levels = [column(f"feature {place}", values, where=where).as_levels() for place, values in enumerate(given)]
    coded = _beside([each.values.astype(np.float64) for each in levels], where)
    if asked is None:
        return coded, None
    same = [_same_codes(each, values) for each, values in zip(levels, asked, strict=True)]
    return coded, _beside(same, "'queries' features")


def _beside(columns: list[np.ndarray], where: str) -> np.ndarray:
    check_lengths({f"{where} column {place}": len(values) for place, values in enumerate(columns)})
    return np.column_stack(columns)


def _same_codes(levels: Any, values: Any) -> np.ndarray:
    """Codes of values in the levels of another column; levels it does not have get numbers of their own."""
    other = column("queries", values, where="'queries' features").as_levels()
    known = {level: code for code, level in enumerate(levels.levels)}
    table = [known.get(level, len(known) + extra) for extra, level in enumerate(other.levels)]
    return np.array([*table, -1], dtype=np.float64)[other.values]


def _label_columns(features: Any, where: str) -> list[Any]:
    if not isinstance(features, np.ndarray) and _is_frame(features):
        frame = frame_of(features, where)
        if not len(frame):
            raise refusal("must have at least one column", where=where, got="it has none")
        return [frame[name] for name in frame]
    if getattr(features, "ndim", 1) == 1 and not _nested(features):
        return [features]
    array = _array(features, where)
    if array.ndim != 2:
        raise refusal("must be (n,) or (n, d)", where=where, got=f"its shape is {array.shape}")
    if array.shape[1] == 0:
        raise refusal("must have at least one column", where=where, got=f"its shape is {array.shape}")
    return [array[:, k] for k in range(array.shape[1])]


def _nested(features: Any) -> bool:
    return isinstance(features, (list, tuple)) and bool(features) and isinstance(features[0], (list, tuple, np.ndarray))


def bandwidth_array(bandwidth: Any) -> tuple[np.ndarray, bool]:
    """Bandwidths as (b,) and whether a single one was given."""
    try:
        values = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise refusal("must be a number or numbers above 0", where="'bandwidth'", got=f"it is {bandwidth!r}") from error
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
        from miscal.kernels.pairs_local import device_available

        if not device_available():
            hint = "use device='auto', or install torch on a machine with a GPU"
            raise refusal("cannot be 'cuda'", where="'device'", got="there is no GPU that torch can use", hint=hint)


def query_predictions(query_prob: Any, target: str, n_classes: int) -> np.ndarray:
    """The predicted values of queries under the target that the data have."""
    where = "'queries' probabilities"
    probability, _ = probability_matrix(query_prob, where)
    if probability.ndim == 2 and probability.shape[1] != n_classes:
        raise refusal(f"must have {n_classes} columns", where=where, got=f"it has {probability.shape[1]}")
    if probability.ndim == 1 and n_classes > 2:
        raise refusal(f"must have {n_classes} columns", where=where, got="it has one value a row")
    if target == "top":
        return np.maximum(probability, 1.0 - probability) if probability.ndim == 1 else probability.max(axis=1)
    place = 1 if target in {"positive", "auto"} else int(target)
    if probability.ndim == 2:
        return np.ascontiguousarray(probability[:, place])
    return probability if place == 1 else 1.0 - probability


def kernel_failure(error: Exception) -> MiscalError:
    """Word what a given kernel did wrong."""
    return refusal("must give a weight of 0 or more for each pair", where="'kernel'", got=str(error))
