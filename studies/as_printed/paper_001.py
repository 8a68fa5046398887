"""Thompson and Desai: what the definitions of the variation calibration error give by hand and in closed form.

The paper shows its results as figures, without numbers. So the column of printed numbers is empty, and each call gives
a value that is known from the definitions, or the mean over simulations of Figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np

from miscal.metrics import (
    expected_calibration_error,
    uncertainty_calibration_error,
    variation_calibration_error,
)
from studies.as_printed import PrintedValue
from studies.variation_experiment import sample

PAGE = "variation.md"
DRAWS = 100


def two_classes() -> SimpleNamespace:
    """10,000 predictions (.3, .7) of two classes, of which 3,035 are right."""
    y = np.repeat([1, 0], [3035, 6965])
    return SimpleNamespace(y=y, p=np.tile([0.3, 0.7], (10_000, 1)))


def every_outcome(p: np.ndarray) -> SimpleNamespace:
    """Each prediction once as right and once as wrong, weighted by its probabilities: calibrated without chance."""
    first = p.argmax(axis=1)
    confidence = p.max(axis=1)
    return SimpleNamespace(
        y=np.concatenate([first, (first + 1) % p.shape[1]]),
        p=np.concatenate([p, p]),
        weight=np.concatenate([confidence, 1 - confidence]),
    )


def three_classes(steps: int = 1600) -> SimpleNamespace:
    """The simplex of three classes, cut into steps² equal triangles: a prediction at the centre of each."""
    i, j = np.mgrid[:steps, :steps].reshape(2, -1)
    up, down = i + j < steps, i + j < steps - 1
    centres = [np.stack([i[up] + 1 / 3, j[up] + 1 / 3], axis=1), np.stack([i[down] + 2 / 3, j[down] + 2 / 3], axis=1)]
    p = np.concatenate(centres) / steps
    return every_outcome(np.column_stack([p, 1 - p.sum(axis=1)]))


def ten_classes(power: int = 16) -> SimpleNamespace:
    """Quasi-random predictions of ten classes, spread evenly over the simplex."""
    from scipy.stats import qmc

    points = qmc.Sobol(10, seed=0).random_base2(power)
    spacings = -np.log1p(-points)
    return every_outcome(spacings / spacings.sum(axis=1, keepdims=True))


def namespace(folder: Path) -> Mapping[str, Any]:  # noqa: ARG001  # nothing is read
    """The metrics, the constructed predictions, and draws of 10,000 calibrated predictions as in section 3."""
    return {
        "two": two_classes(),
        "three": three_classes(),
        "ten": ten_classes(),
        "draws_3": [sample(10_000, 3, "flat", seed) for seed in range(DRAWS)],
        "draws_10": [sample(10_000, 10, "flat", seed) for seed in range(DRAWS)],
        "mean": fmean,
        "expected_calibration_error": expected_calibration_error,
        "uncertainty_calibration_error": uncertainty_calibration_error,
        "variation_calibration_error": variation_calibration_error,
    }


def _known(source: str, call: str, value: str, note: str) -> PrintedValue:
    return PrintedValue(source, call, "", 1.0, value, note)


def _of_row(variation: str) -> str:
    """Two predictions whose likeliest class occurred: the observed variation is 0, so that the error is V itself."""
    rows = "[[0.6, 0.25, 0.1, 0.05], [0.25, 0.6, 0.1, 0.05]]"
    return f'variation_calibration_error([0, 1], {rows}, variation="{variation}")'


REDUCES = "the ECE: V is the first rank's share"
DRAWN = f"± {{}}, {DRAWS} draws"
VALUES = [
    _known(
        "V(.6, .25, .1, .05): index of qualitative variation",
        _of_row("qualitative_variation"),
        ".7533333",
        '"IQR" is a misprint for IQV',
    ),
    _known(
        "V(.6, .25, .1, .05): Wilcox's variation ratio",
        _of_row("variation_ratio"),
        ".5333333",
        "4/3 · (1 - .6)",
    ),
    _known(
        "Section 2.2: ECE, confidence .7, accuracy .3035",
        'expected_calibration_error(two.y, two.p, target="top")',
        ".3965",
        "the gap between .3035 and .7",
    ),
    _known(
        "Section 2.2: VCE of confidence, same rows",
        'variation_calibration_error(two.y, two.p, variation="confidence")',
        ".3965",
        REDUCES,
    ),
    _known(
        "Section 2.2: VCE of the largest share, same rows",
        "variation_calibration_error(two.y, two.p, variation=lambda shares: shares.max(axis=1))",
        ".0035",
        "not the ECE: the second rank's .6965 is compared",
    ),
    _known(
        "Figures 1 and 3: UCE's floor, C = 3, flat",
        "uncertainty_calibration_error(three.y, three.p, sample_weight=three.weight)",
        ".369644",
        "closed form .369644",
    ),
    _known(
        "Figures 1 and 3: UCE's floor, C = 10, flat",
        "uncertainty_calibration_error(ten.y, ten.p, sample_weight=ten.weight)",
        ".1306",
        "closed form .130637",
    ),
    _known(
        "Figure 1: ECE, C = 3, flat, N = 10⁴",
        'mean(expected_calibration_error(y, p, bins=10, range=(1 / 3, 1), target="top") for y, p in draws_3)',
        ".0106",
        DRAWN.format(".0003"),
    ),
    _known(
        "Figure 1: VCE, C = 3, flat, N = 10⁴",
        "mean(variation_calibration_error(y, p) for y, p in draws_3)",
        ".0122",
        DRAWN.format(".0003"),
    ),
    _known(
        "Figure 1: UCE, C = 3, flat, N = 10⁴",
        "mean(uncertainty_calibration_error(y, p) for y, p in draws_3)",
        ".3699",
        DRAWN.format(".0004"),
    ),
    _known(
        "Figure 1: ECE, C = 10, flat, N = 10⁴",
        'mean(expected_calibration_error(y, p, bins=10, range=(1 / 10, 1), target="top") for y, p in draws_10)',
        ".0079",
        DRAWN.format(".0003"),
    ),
    _known(
        "Figure 1: VCE, C = 10, flat, N = 10⁴",
        "mean(variation_calibration_error(y, p) for y, p in draws_10)",
        ".0052",
        DRAWN.format(".0002"),
    ),
    _known(
        "Figure 1: UCE, C = 10, flat, N = 10⁴",
        "mean(uncertainty_calibration_error(y, p) for y, p in draws_10)",
        ".1313",
        DRAWN.format(".0004"),
    ),
]
