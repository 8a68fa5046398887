"""All cases by group: a name, and the function that computes the answer as a plain structure.

A new case is a line in the table `CASES` of one of the modules below, and `python -m tests.goldens.freeze NAME`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

from miscal.data.errors import MiscalWarning
from tests.goldens import audits, metrics, recalibrators, results
from tests.goldens.normalise import Plain

GROUPS: dict[str, dict[str, Callable[[], Plain]]] = {
    "audits": audits.CASES,
    "results": results.CASES,
    "metrics": metrics.CASES,
    "recalibrators": recalibrators.CASES,
}


def compute(case: Callable[[], Plain]) -> Plain:
    """The answer of a case; what is warned of is compared elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MiscalWarning)
        return case()


def processor() -> dict[str, str]:
    """What decides the last bits of a fit beside the code: the instructions and threads of numpy and BLAS."""
    import numpy as np
    from numpy._core._multiarray_umath import __cpu_features__ as features

    return {
        "numpy": np.__version__,
        "features": " ".join(sorted(name for name, there in features.items() if there)),
        "blas": os.environ.get("OPENBLAS_CORETYPE", ""),
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", ""),
    }


# Cases whose last bits depend on the processor, by the beginning of their names, and why. Where the processor is that
# of the frozen files they are compared to the last bit as well.
TOLERANT: dict[str, str] = {
    "audit_": "fits and curves of the score and of columns go through BLAS and numpy's own EXP and LOG",
    "compare_": "the same, of two audits",
    "by_": "the same; random signs times residuals is a product of BLAS as well",
    "metric_": "the same",
    "recalibrator": "fits end in BLAS, LightGBM or torch, whose sums depend on the processor and its threads",
    "recalibrated_classifier": "a classifier of another library",
    "choose": "losses of candidates are products of BLAS",
    "repair_": "a recalibrator that is fitted or chosen",
}
CLOSE = 1e-9  # relative


def tolerance(name: str, frozen: dict[str, str], now: dict[str, str]) -> float:
    """By how much a number may differ, relative to its size."""
    return CLOSE if frozen != now and any(map(name.startswith, TOLERANT)) else 0.0
