"""Weights that tell the outcome, and random weights for a paired bootstrap."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miscal.data.errors import refusal
from miscal.inference.sums import Floats

MOST_LEVELS = 100  # outcomes beyond which a response is not a class


def weights_depend_on_outcome(weight: ArrayLike | None, outcome: ArrayLike) -> bool:
    """Tell whether weights are constant within each outcome and differ between them.

    So they are after negatives were down-sampled; the Bernoulli null is then wrong (its z has a standard deviation of
    .4 in place of 1) and the sign-flip null is used. Rows of weight 0 are passed over; at least two rows of each of
    two outcomes are needed to say so.

    Examples
    --------
    >>> weights_depend_on_outcome([1, 1, 10, 10], [1, 1, 0, 0])
    True
    >>> weights_depend_on_outcome([1, 2, 10, 10], [1, 1, 0, 0])
    False
    """
    if weight is None:
        return False
    weights, outcomes = np.asarray(weight, dtype=np.float64), np.asarray(outcome)
    if weights.shape != outcomes.shape:
        raise refusal("must have one entry a row", where="'weight'", got=f"{weights.shape} against {outcomes.shape}")
    kept = weights > 0.0
    weights, outcomes = weights[kept], outcomes[kept]
    levels = []
    if weights.size == 0 or np.unique(weights[:1000]).size > MOST_LEVELS or np.ptp(weights) == 0.0:
        return False
    distinct = np.unique(outcomes)
    if distinct.size > MOST_LEVELS:
        return False
    for level in distinct:
        inside = weights[outcomes == level]
        if inside.size < 2 or np.ptp(inside) > 1e-9 * inside[0]:
            return False
        levels.append(float(inside[0]))
    return len(levels) >= 2 and max(levels) > min(levels) * (1.0 + 1e-9)


def poisson_weights(
    ids: ArrayLike | None, replicate: int, seed: int = 0, *, rows: int | None = None, start: int = 0
) -> Floats:
    """Give Poisson(1) multipliers hashed from each row's id, or from its position when `ids` is None.

    A row keeps its multiplier in whatever order, partition or model it appears, which makes comparisons paired.
    Positions run from `start`, so that a stream may be cut anywhere; `rows` says how many.

    Examples
    --------
    >>> poisson_weights(["a", "b"], 0)[::-1].tolist() == poisson_weights(["b", "a"], 0).tolist()
    True
    """
    from miscal.kernels.simulate import poisson_multipliers

    if ids is None:
        if rows is None:
            raise refusal("is needed when there are no ids", where="'rows'")
        keys = np.arange(start, start + rows, dtype=np.uint64)
    else:
        keys = hashed(np.asarray(ids))
    mixed_seed = np.random.SeedSequence([abs(int(seed)), int(replicate)]).generate_state(1, np.uint64)[0]
    out = np.empty(keys.size)
    poisson_multipliers(keys, mixed_seed, out)
    return out


def hashed(ids: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Hash ids to 64 bits: whole numbers as they are, anything else by its text, the same in every process."""
    if ids.dtype.kind in "iub":
        return ids.astype(np.int64).view(np.uint64) if ids.dtype.kind != "u" else ids.astype(np.uint64)
    texts, places = np.unique(ids.astype(str), return_inverse=True)
    keys = np.fromiter((_hash_text(text) for text in texts.tolist()), dtype=np.uint64, count=texts.size)
    return np.asarray(keys[places])


def _hash_text(text: str) -> int:
    from hashlib import blake2b

    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
