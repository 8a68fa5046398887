"""skmisc: local regression of the outcome on the score, exact at each score, and the distances read off it.

The index and its quantiles are those of the R packages rms (`val.prob`) and CalibrationCurves: |fitted - predicted|.
"""

from __future__ import annotations

import numpy as np
from frozen import inputs, save
from skmisc.loess import loess


def fitted(x, y, weight=None):
    options = {} if weight is None else {"weights": weight}
    model = loess(x, y.astype(float), span=0.75, degree=2, surface="direct", **options)
    model.fit()
    # `predict` gives other values than these when there are weights; the fit itself is right.
    return np.clip(model.outputs.fitted_values, 0.0, 1.0)


def main():
    rows = inputs()
    distance = np.abs(fitted(rows["p"], rows["y"]) - rows["p"])
    values = {"index": distance.mean(), "largest": distance.max(), "median": np.sort(distance)[distance.size // 2 - 1]}
    weighted = np.abs(fitted(rows["p"], rows["y"], rows["weight"]) - rows["p"])
    values["index_weighted"] = np.average(weighted, weights=rows["weight"])
    save("smooth_curve", ["scikit-misc", "numpy"], values)


if __name__ == "__main__":
    main()
