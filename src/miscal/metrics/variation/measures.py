"""Measures of variation: how spread a distribution over K classes is, given from its largest share to its smallest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.errors import nearest, refusal

Variation = str | Callable[[np.ndarray], Any]


def entropy(shares: np.ndarray) -> np.ndarray:
    """-Σ p log_K p over the last axis, in [0, 1]; 0 log 0 = 0.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 1.0]
    """
    positive = np.where(shares > 0.0, shares, 1.0)
    total = -(shares * np.log(positive)).sum(axis=-1) / np.log(shares.shape[-1])
    return np.asarray(np.clip(total, 0.0, 1.0))


def confidence(shares: np.ndarray) -> np.ndarray:
    """The first rank's share; for a prediction that is its largest probability.

    >>> confidence(np.array([[0.3, 0.7]])).tolist()
    [0.3]
    """
    return np.asarray(shares[..., 0])


def variation_ratio(shares: np.ndarray) -> np.ndarray:
    """Wilcox's variation ratio K/(K-1)·(1 - max p), in [0, 1].

    >>> variation_ratio(np.array([[0.6, 0.25, 0.1, 0.05]])).round(7).tolist()
    [0.5333333]
    """
    classes = shares.shape[-1]
    return np.asarray(np.minimum(classes / (classes - 1.0) * (1.0 - shares.max(axis=-1)), 1.0))


def qualitative_variation(shares: np.ndarray) -> np.ndarray:
    """Index of qualitative variation K/(K-1)·(1 - Σ p²), in [0, 1].

    >>> qualitative_variation(np.array([[0.6, 0.25, 0.1, 0.05]])).round(7).tolist()
    [0.7533333]
    """
    classes = shares.shape[-1]
    scaled = classes / (classes - 1.0) * (1.0 - (shares * shares).sum(axis=-1))
    return np.asarray(np.clip(scaled, 0.0, 1.0))


# In the order of the kernels' codes 0, 1, 2, 3.
NAMED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "entropy": entropy,
    "confidence": confidence,
    "variation_ratio": variation_ratio,
    "qualitative_variation": qualitative_variation,
}
GIVEN = -1


@dataclass(frozen=True)
class Measure:
    """A measure of variation: its name, the kernels' code for it (-1: a callable), and the function itself."""

    name: str
    kind: int
    function: Callable[[np.ndarray], Any]

    def __call__(self, shares: np.ndarray) -> np.ndarray:
        """Variation over the last axis of an array of any shape."""
        if self.kind != GIVEN:
            return np.asarray(self.function(shares))
        flat = np.ascontiguousarray(shares, dtype=np.float64).reshape(-1, shares.shape[-1])
        values = np.asarray(self.function(flat))
        if values.shape != (flat.shape[0],) or values.dtype.kind not in "fiu":
            got = f"shape {values.shape} and dtype {values.dtype} for {flat.shape[0]} rows"
            raise refusal("must return one number a row", where="the callable 'variation'", got=got)
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise refusal(
                "must return finite numbers",
                where="the callable 'variation'",
                got=f"it gave {values[row]} for {flat[row].tolist()}",
                hint="zeros occur among the probabilities: take 0 log 0 as 0",
            )
        return values.astype(np.float64).reshape(shares.shape[:-1])

    def slope(self, shares: np.ndarray, size: np.ndarray) -> np.ndarray:
        """First-order effect of each share on the variation, (bins, K); up to a constant over the ranks of a bin.

        The entropy's slope is infinite at 0: a share is taken as at least half a row of `size`.
        """
        classes = shares.shape[-1]
        if self.kind == GIVEN:
            step = 1e-6 * np.eye(classes)
            rise = [self(each + step) - self(np.maximum(each - step, 0.0)) for each in shares]
            reach = 1e-6 + np.minimum(shares, 1e-6)
            return np.asarray(np.stack(rise) / reach)
        if self.name == "entropy":
            return np.asarray(-np.log(np.maximum(shares, 0.5 / size[:, np.newaxis])) / np.log(classes))
        if self.name == "confidence":
            return np.asarray(np.eye(classes)[np.zeros(len(shares), np.int64)])
        scale = -classes / (classes - 1.0)
        if self.name == "variation_ratio":
            return np.asarray(scale * np.eye(classes)[shares.argmax(axis=1)])
        return np.asarray(2.0 * scale * shares)

    def range(self, classes: int) -> tuple[float, float] | None:
        """Where values can lie: [1/K, 1] for the confidence, [0, 1] for the others, unknown for a callable."""
        if self.kind == GIVEN:
            return None
        return (1.0 / classes, 1.0) if self.name == "confidence" else (0.0, 1.0)


def measure_of(variation: Any) -> Measure:
    """The measure that a name or a callable stands for."""
    if isinstance(variation, str) and variation in NAMED:
        return Measure(variation, list(NAMED).index(variation), NAMED[variation])
    if callable(variation):
        return Measure(getattr(variation, "__name__", "variation"), GIVEN, variation)
    hint = nearest(variation, NAMED) if isinstance(variation, str) else f"known names: {', '.join(NAMED)}"
    raise refusal(
        "must be the name of a measure of variation or a callable",
        where="'variation'",
        got=f"it is {variation!r}",
        hint=hint,
    )


def bias_corrected(measure: Measure, plain: np.ndarray, shares: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The variation of frequencies freed of the bias that comes from estimating them on `size` rows.

    Entropy: Miller and Madow's (m - 1)/(2 n ln K) is added, m the ranks that occurred. Qualitative variation: times
    n/(n - 1), which is exact. Confidence is linear and has no bias. The others have no known correction.
    """
    rows = np.maximum(size, 1.0)
    if measure.name == "entropy" and measure.kind != GIVEN:
        occurred = (shares > 0.0).sum(axis=-1)
        return np.asarray(plain + (occurred - 1.0) / (2.0 * rows * np.log(shares.shape[-1])))
    if measure.name == "qualitative_variation" and measure.kind != GIVEN:
        return np.asarray(plain * np.where(rows > 1.0, rows / np.maximum(rows - 1.0, 1e-9), 1.0))
    return plain


def check_correction(measure: Measure, bias_correction: Any) -> bool:
    """Refuse a correction that does not exist."""
    if not isinstance(bias_correction, (bool, np.bool_)):
        raise refusal("must be True or False", where="'bias_correction'", got=f"it is {bias_correction!r}")
    if bias_correction and (measure.kind == GIVEN or measure.name == "variation_ratio"):
        raise refusal(
            "is known for the entropy, the confidence and the qualitative variation only",
            where="'bias_correction'",
            got=f"'variation' is {measure.name}",
            hint="use bias_correction=False, or by_variation, whose noise floor holds the bias",
        )
    return bool(bias_correction)
