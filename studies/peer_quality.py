"""Recalibrate the splits of a folder by other packages; run by the peers' environment, knows nothing of this library.

python studies/peer_quality.py FOLDER     each split-*.npz has fit_p, fit_y, test_p, and split-*.parquet the columns
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


def _scikit(method: str):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Given(ClassifierMixin, BaseEstimator):
        """A classifier whose probabilities are its input."""

        def fit(self, X, y):  # noqa: ARG002
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return X

        def predict(self, X):
            return self.classes_[X.argmax(axis=1)]

    def fit(p, y, _):
        two = p if p.ndim == 2 else np.stack([1 - p, p], axis=1)
        given = Given()
        given.classes_ = np.arange(two.shape[1])
        given.n_features_in_ = two.shape[1]
        made = CalibratedClassifierCV(FrozenEstimator(given), method=method).fit(two, y)
        return lambda q, _: made.predict_proba(q if q.ndim == 2 else np.stack([1 - q, q], axis=1))

    return fit


def _netcal(module: str, name: str, **options):
    def fit(p, y, _):
        import importlib

        made = getattr(importlib.import_module(module), name)(**options)
        made.fit(p, y)
        return lambda q, _: made.transform(q)

    return fit


def _probmetrics(method: str):
    def fit(p, y, _):
        from probmetrics.calibrators import get_calibrator

        made = get_calibrator(method)
        made.fit(p if p.ndim == 2 else np.stack([1 - p, p], axis=1), y)
        return lambda q, _: made.predict_proba(q if q.ndim == 2 else np.stack([1 - q, q], axis=1))

    return fit


def _mcgrad(p, y, columns):
    from mcgrad.methods import MCGrad

    if p.ndim == 2:
        raise ValueError("binary only")
    words = [name for name in columns if not pd.api.types.is_numeric_dtype(columns[name])]
    numbers = [name for name in columns if name not in words]
    frame = columns.reset_index(drop=True).assign(score_=p, y_=y)
    made = MCGrad().fit(frame, "score_", "y_", None, words, numbers)
    return lambda q, beside: np.asarray(
        made.predict(beside.reset_index(drop=True).assign(score_=q), "score_", words, numbers), dtype=float
    )


METHODS = {
    "scikit-learn isotonic": _scikit("isotonic"),
    "scikit-learn sigmoid": _scikit("sigmoid"),
    "scikit-learn temperature": _scikit("temperature"),
    "netcal TemperatureScaling": _netcal("netcal.scaling", "TemperatureScaling"),
    "netcal LogisticCalibration": _netcal("netcal.scaling", "LogisticCalibration"),
    "netcal BetaCalibration": _netcal("netcal.scaling", "BetaCalibration"),
    "netcal HistogramBinning": _netcal("netcal.binning", "HistogramBinning", bins=15),
    "netcal IsotonicRegression": _netcal("netcal.binning", "IsotonicRegression"),
    "netcal BBQ": _netcal("netcal.binning", "BBQ"),
    "probmetrics ts-mix": _probmetrics("ts-mix"),
    "probmetrics svs": _probmetrics("svs"),
    "probmetrics logistic": _probmetrics("logistic"),
    "MCGrad": _mcgrad,
}
SLOW_WITH_CLASSES = {"netcal BBQ", "netcal LogisticCalibration", "netcal BetaCalibration"}


def quick() -> None:
    """Recalibrate a small split by every method; that of a package that is not installed is reported as failed."""
    from studies.needs import need

    need("package MCGrad", "package netcal", "package probmetrics")
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 600)
    y = (rng.random(600) < p).astype(int)
    with tempfile.TemporaryDirectory() as name:
        np.savez(Path(name) / "split-quick-0.npz", fit_p=p[:300], fit_y=y[:300], test_p=p[300:])
        pd.DataFrame({"x": rng.random(600)}).to_parquet(Path(name) / "split-quick-0.parquet")
        main(Path(name))
        print((Path(name) / "split-quick-0.peers.json").read_text())


def main(folder: Path) -> None:
    splits = [path for path in folder.glob("split-*.npz") if path.stem.count(".") == 0]
    for path in sorted(splits, key=lambda path: path.stem.split("-")[1:][::-1]):
        done = path.with_suffix(".peers.npz")
        held = dict(np.load(path))
        columns = pd.read_parquet(path.with_suffix(".parquet"))
        fit_x, test_x = columns.iloc[: len(held["fit_y"])], columns.iloc[len(held["fit_y"]) :]
        made: dict[str, np.ndarray] = dict(np.load(done)) if done.exists() else {}
        seconds: dict[str, list[float] | str] = {}
        if made:
            kept = json.loads(path.with_suffix(".peers.json").read_text())
            seconds = {name: spent for name, spent in kept.items() if name in made}
        for name, method in METHODS.items():
            if name in made or (held["fit_p"].ndim == 2 and name in SLOW_WITH_CLASSES):
                continue
            try:
                start = time.process_time()
                apply = method(held["fit_p"], held["fit_y"], fit_x)
                middle = time.process_time()
                out = np.asarray(apply(held["test_p"], test_x), dtype=float)
                seconds[name] = [middle - start, time.process_time() - middle]
                made[name] = out[:, 1] if out.ndim == 2 and out.shape[1] == 2 else out.reshape(held["test_p"].shape)
            except Exception as error:  # a peer that fails is reported as failed
                seconds[name] = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        np.savez(done, **made)
        path.with_suffix(".peers.json").write_text(json.dumps(seconds))
        print(path.stem, flush=True)


if __name__ == "__main__":
    if "--quick" in sys.argv:
        quick()
    else:
        main(Path(sys.argv[1]))
