"""MAPIE and MCGrad: Kuiper's statistic and its p-value, on untied scores and on tied ones in two orders."""

from __future__ import annotations

import numpy as np
from frozen import inputs, save
from mapie.metrics.calibration import expected_calibration_error, kuiper_p_value, kuiper_statistic, top_label_ece
from mcgrad.metrics import ecce, ecce_pvalue, ecce_sigma


def main():
    rows = inputs()
    y, p, tied, weight = rows["y"], rows["p"], rows["tied"], rows["weight"]
    events_first = np.argsort(-y, kind="stable")
    values = {
        "mcgrad": ecce(y, p),
        "mcgrad_weighted": ecce(y, p, weight),
        "mcgrad_sigma": ecce_sigma(y, p),
        "mcgrad_p": ecce_pvalue(y, p),
        "mapie_statistic": kuiper_statistic(y, p),
        "mapie_p": kuiper_p_value(y, p),
        "mcgrad_tied": [ecce(y, tied), ecce(y[events_first], tied[events_first]), ecce(np.sort(y), tied[y.argsort()])],
        "mapie_tied": [kuiper_statistic(y, tied), kuiper_statistic(y[events_first], tied[events_first])],
        "mapie_binned_15": expected_calibration_error(y, p, num_bins=15),
        "mapie_binned_15_classes": top_label_ece(rows["labels"], rows["classes"], num_bins=15),
        "mapie_rising": kuiper_statistic(np.ones(3), np.array([0.5, 0.6, 0.7])),
        "mcgrad_rising": ecce(np.ones(3), np.array([0.5, 0.6, 0.7])),
    }
    save("kuiper", ["MAPIE", "MCGrad", "numpy"], values)


if __name__ == "__main__":
    main()
