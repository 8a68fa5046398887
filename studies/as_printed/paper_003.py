"""Paper 003 (Pan and others, field-aware calibration) as printed: what can be computed without the paper's data.

None of its tables can: the paper's five data sets are not public or may not be passed on. What is left are the numbers
of sections 4.1 and 6.1, one claim about a metric, and its equations, whose "printed" digits are worked by hand from the
equation on six rows of three states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from miscal import metrics
from miscal.recalibrate import IsotonicLinePlotScaling, NeuralCalibration
from studies.as_printed import PrintedValue

PAGE = "field.md"
ROWS = "six rows, eq. "
EPSILON = "metrics.field_relative_calibration_error(y, p, z, epsilon=0.01"
PAPER = "NeuralCalibration(embedding=256, epochs=1)"
VALUES = (
    PrintedValue("section 4.1, K", "IsotonicLinePlotScaling().knots", "100", note="the default"),
    PrintedValue(
        "section 4.1, a_1 with σ(a_1) = 1/101",
        "line_plot.knots_[0]",
        "-4.605",
        note="by hand, ln(1/100); `placement='probability'`, the default",
    ),
    PrintedValue("section 4.1, a_100", "line_plot.knots_[-1]", "4.605", note="by hand, ln(100)"),
    PrintedValue("section 4.1, K of Neural Calibration", f"{PAPER}.knots", "100", note="the default"),
    PrintedValue("section 6.1, length of the embeddings", f"{PAPER}.embedding", "256", note="16 by default"),
    PrintedValue("section 6.1, epochs", f"{PAPER}.epochs", "1", note="20 with early stopping by default"),
    PrintedValue("section 6.1, width of the first layer", f"{PAPER}.hidden[0]", "200", note="the default"),
    PrintedValue("section 6.1, width of the second layer", f"{PAPER}.hidden[1]", "200", note="the default"),
    PrintedValue("section 6.1, learning rate", f"{PAPER}.learning_rate", "0.001", note="the default"),
    PrintedValue(
        "section 2.1: a constant has “zero Prob-ECE”",
        "metrics.probability_calibration_error(y, rate)",
        "0.0000",
        note="`rate` is the mean of y for every row",
    ),
    PrintedValue(
        "the same constant, eq. 4: Field-ECE",
        "metrics.field_calibration_error(y, rate, z)",
        ".1111",
        note="by hand, (abs(1 − 3/3) + abs(1 − 2/3) + abs(0 − 1/3))/6",
    ),
    PrintedValue(ROWS + "1: log loss", "metrics.log_loss(y, p)", ".4311", note="by hand, −ln(.8·.6·.7·.35·.8·.8)/6"),
    PrintedValue(
        ROWS + "2: Brier score",
        "metrics.brier_score(y, p)",
        ".1321",
        note="by hand, (.04 + .16 + .09 + .4225 + .04 + .04)/6",
    ),
    PrintedValue(
        ROWS + "3: Prob-ECE, K = 2",
        "metrics.probability_calibration_error(y, p, bins=2)",
        ".1083",
        note="by hand, (abs(1 − 1.45) + abs(1 − .8))/6",
    ),
    PrintedValue(
        "two rows, y = 1 and 0, p = .4 and 1, eq. 3, K = 2",
        "metrics.probability_calibration_error([1, 0], [0.4, 1.0], bins=2)",
        ".3000",
        ours=".8000",
        note="the paper's bins end before 1 and lose the second row, which is kept here",
    ),
    PrintedValue(
        ROWS + "4: Field-ECE", "metrics.field_calibration_error(y, p, z)", ".1917", note="by hand, (.5 + .45 + .2)/6"
    ),
    PrintedValue(
        ROWS + "5: Field-RCE, ε = .01",
        EPSILON + ', zero="epsilon")',
        "3.7231",
        note="by hand, (3·.5/1.03 + 2·.45/1.02 + 1·.2/.01)/6; the default",
    ),
    PrintedValue(
        ROWS + "5 without states that have no event",
        'metrics.field_relative_calibration_error(y, p, z, zero="drop")',
        ".4800",
        note="by hand, (3·.5/1 + 2·.45/1)/5; other implementations, not the paper",
    ),
    PrintedValue("six rows, AUC", "roc_auc_score(y, p)", ".8750", note="by hand, 7 of 8 pairs; scikit-learn"),
    PrintedValue(
        "six rows, AUC from the PRR",
        '0.5 + 0.5 * metrics.prediction_rejection_ratio(y, p, target="positive")',
        ".8750",
        note="the same",
    ),
)


def namespace(folder: Path) -> dict[str, Any]:  # noqa: ARG001  # no published data are read
    """The names that the calls use."""
    y = np.array([1, 0, 0, 1, 0, 0])
    p = np.array([0.8, 0.4, 0.3, 0.35, 0.2, 0.2])
    return {
        "metrics": metrics,
        "roc_auc_score": roc_auc_score,
        "IsotonicLinePlotScaling": IsotonicLinePlotScaling,
        "NeuralCalibration": NeuralCalibration,
        "line_plot": IsotonicLinePlotScaling().fit(p, y),
        "y": y,
        "p": p,
        "z": np.array(["CA", "CA", "CA", "NY", "NY", "TX"]),
        "rate": np.full(6, y.mean()),
    }
