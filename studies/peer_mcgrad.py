"""Repair splits of a folder by MCGrad's own package; run by the peers' environment, knows nothing of this library.

python studies/peer_mcgrad.py FOLDER     each split-*.parquet has part (fit, test), score, y, and the covariates
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


def quick() -> None:
    """Recalibrate a small split."""
    from studies.needs import need

    need("package MCGrad")
    rng = np.random.default_rng(0)
    score = rng.random(600)
    columns = {"x": rng.random(600), "group": rng.choice(["a", "b"], 600)}
    y = (rng.random(600) < score**1.3).astype(int)
    with tempfile.TemporaryDirectory() as name:
        frame = pd.DataFrame({"part": ["fit", "test"] * 300, "score": score, "y": y, **columns})
        frame.to_parquet(Path(name) / "split-000.parquet")
        main(Path(name))
        print(np.load(Path(name) / "split-000.npy")[:5])


def main(folder: Path) -> None:
    from mcgrad.methods import MCGrad

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
    if "--quick" in sys.argv:
        quick()
    else:
        main(Path(sys.argv[1]))
