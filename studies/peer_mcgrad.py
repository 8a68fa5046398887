"""Repair splits of a folder by MCGrad's own package; run by the peers' environment, knows nothing of this library.

python studies/peer_mcgrad.py FOLDER     each split-*.parquet has part (fit, test), score, y, and the covariates
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from mcgrad.methods import MCGrad  # noqa: E402


def main(folder: Path) -> None:
    warm = None
    for path in sorted(folder.glob("split-*.parquet")):
        data = pd.read_parquet(path)
        names = [name for name in data.columns if name not in ("part", "score", "y")]
        words = [name for name in names if not pd.api.types.is_numeric_dtype(data[name])]
        numbers = [name for name in names if name not in words]
        fit, test = (data[data["part"] == part].reset_index(drop=True) for part in ("fit", "test"))
        if warm is None:
            warm = MCGrad(num_rounds=1, early_stopping=False).fit(fit.head(500), "score", "y", None, words, numbers)
        started = time.process_time()
        model = MCGrad().fit(fit, "score", "y", None, words, numbers)
        spent = time.process_time() - started
        after = np.asarray(model.predict(test, "score", words, numbers), dtype=float)
        np.save(path.with_suffix(".npy"), after)
        path.with_suffix(".json").write_text(json.dumps({"fit_cpu_s": spent, "rounds": len(model.mr)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
