"""Every recalibrator fitted to small data: new rows, its JSON, its SQL in each dialect; and `choose`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from miscal import recalibrate
from miscal.data.errors import MiscalError
from miscal.export.dialects import DIALECTS
from miscal.recalibrate import choose
from tests.goldens import data
from tests.goldens.normalise import Plain, plain, state
from tests.laws import recalibrators as examples

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "PlattScaling": [{"on": "probability", "l2": 1.0}, {"keep_certain": True}],
    "BetaCalibration": [{"constraint": "none", "l2": 1.0}],
    "HistogramBinning": [{"bins": 6, "strategy": "quantile"}],
    "IsotonicCalibration": [{"smooth": 0.0}],
    "ScalingBinning": [{"bins": 5, "renormalise": False}],
    "DirichletCalibration": [{"l2": 0.1, "intercept_l2": 0.01, "reference": False}],
    "IsotonicLinePlotScaling": [{"knots": 12, "placement": "quantile", "outside": "clamp"}],
    "KernelCalibration": [{"base": "platt", "weight": 0.3}],
    "VariableTree": [{"max_depth": 2, "min_leaf": 40}],
    "AugmentedLogistic": [{"degree": 2, "l2": 1.0}],
    "AugmentedBeta": [{"degree": 2, "constraint": "positive"}],
    "LocalRecalibration": [{"kernel": "gaussian", "bins": 5, "columns": ["v"]}],
    "StructuredScaling": [{"structure": "matrix"}],
    "MulticalibrationBoost": [{"rounds": 2, "engine": "sklearn"}, {"rounds": 2, "start": "rate"}],
    "GroupWise": [],
    "Chain": [],
}

# Examples that are made for events, as they are for other means.
MEANS = {"GroupWise": recalibrate.GroupWise(recalibrate.MeanScaling(), min_rows=10)}


def frame(rows: data.Arrays) -> dict[str, np.ndarray]:
    """The columns that a recalibrator may use."""
    return {"v": rows["variable"], "level": rows["level"]}


def fitted(model: Any, many: int, *, weighted: bool = False) -> Plain:
    """A recalibrator after its fit: predictions for new rows, JSON and SQL."""
    rows, new = data.arrays(500, 21, many), data.arrays(60, 22, many)
    weight = rows["weight"] if weighted else None
    model.fit(rows["p"], rows["y"], frame(rows), sample_weight=weight)
    return told(model, model.predict_proba(new["p"], frame(new)), "p" if many == 2 else [f"p{k}" for k in range(many)])


def fitted_to_means(model: Any, response: str) -> Plain:
    """A recalibrator of means that are no probabilities."""
    rows, new = data.arrays(500, 21), data.arrays(60, 22)
    rng = np.random.default_rng(23)
    exposure = rows["exposure"] if response == "count" else None
    mean = 3.0 * rows["p"] * np.where(rows["level"] == "b", 1.5, 1.0)
    y = rng.poisson(mean * rows["exposure"]) if response == "count" else mean + rng.normal(size=mean.size)
    model.fit(3.0 * rows["p"], y, frame(rows), response=response, exposure=exposure)
    return told(model, model.predict(3.0 * new["p"], frame(new)), "p")


def told(model: Any, predicted: np.ndarray, column: Any) -> Plain:
    """What a fitted recalibrator tells; what it refuses to write is frozen as refused."""
    return {
        "predicted": plain(predicted),
        "state": written(lambda: state(model.to_json())),
        "sql": {name: written(partial(model.to_sql, column, dialect=name)) for name in sorted(DIALECTS)},
    }


def written(write: Callable[[], Plain]) -> Plain:
    """What is written, or that it is refused."""
    try:
        return write()
    except MiscalError:
        return "refused"


def variants(kind: Any) -> dict[str, Callable[[], Any]]:
    """Makers of a class: its example, and with other parameters."""
    named = {"": partial(examples.example, kind)}
    return named | {f"_{i}": partial(kind, **options) for i, options in enumerate(OPTIONS.get(kind.__name__, []), 1)}


def recalibrator(kind: Any, many: int) -> Plain:
    """A class with each set of parameters."""
    return {
        f"{kind.__name__}{label}{' weighted' * weighted}": fitted_or_refused(make, many, weighted=weighted)
        for label, make in variants(kind).items()
        for weighted in ((False, True) if not label else (False,))
    }


def fitted_or_refused(make: Callable[[], Any], many: int, *, weighted: bool) -> Plain:
    """A fit, or that such rows are refused."""
    return written(lambda: fitted(make(), many, weighted=weighted))


def of_means(response: str, names: list[str]) -> Plain:
    """All classes that take such an outcome."""
    return {
        name: written(
            partial(fitted_to_means, MEANS.get(name) or examples.example(getattr(recalibrate, name)), response)
        )
        for name in names
    }


def classifier() -> Plain:
    """A classifier of another library, recalibrated by folds."""
    rows = data.arrays(400, 31)
    X = np.column_stack([rows["variable"], rows["other"], rows["features"]])
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    model = recalibrate.RecalibratedClassifier(tree, recalibrate.PlattScaling(), cv=3).fit(X, rows["y"])
    linear = recalibrate.RecalibratedClassifier(LogisticRegression(), cv=3).fit(X, rows["y"], rows["weight"])
    return {"tree": plain(model.predict_proba(X[:50])), "linear": plain(linear.predict_proba(X[:50]))}


def chosen(many: int = 2, rows: int = 700, response: str = "binary", **options: Any) -> Plain:
    """What `choose` takes, and its table of candidates."""
    given, new = data.arrays(rows, 41, many), data.arrays(40, 42, many)
    p, y = given["p"], given["y"]
    if response == "count":
        p, y = 2.0 * p, np.random.default_rng(43).poisson(2.0 * p * np.where(given["level"] == "b", 1.8, 1.0))
        options["response"] = response
    if options.pop("weighted", False):
        options["sample_weight"] = given["weight"]
    if options.pop("clustered", False):
        options["cluster"] = np.arange(rows) // 5
    model = choose(p, y, frame(given), **options)
    apply = model.predict if response == "count" else model.predict_proba
    scale = 2.0 if response == "count" else 1.0
    return {
        "chosen": type(model).__name__,
        "label": model.name,
        "table": plain({"candidate": model.table["name"], **{k: v for k, v in model.table.items() if k != "name"}}),
        "predicted": plain(apply(scale * new["p"], frame(new))),
    }


CURVES = [recalibrate.PlattScaling(), recalibrate.BetaCalibration(), recalibrate.GroupWise(recalibrate.PlattScaling())]
CASES: dict[str, Callable[[], Plain]] = {
    **{f"recalibrator_{kind.__name__}": partial(recalibrator, kind, 2) for kind in examples.kinds()
       if "binary" in kind.responses},
    **{f"recalibrator_{kind.__name__}_classes": partial(recalibrator, kind, 3) for kind in examples.kinds()
       if "binary" in kind.responses},
    **{
        f"recalibrators_{response}": partial(
            of_means, response, [kind.__name__ for kind in examples.kinds() if response in kind.responses]
        )
        for response in ("real", "count")
    },
    "recalibrated_classifier": classifier,
    "choose": chosen,
    "choose_weights": partial(chosen, weighted=True, candidates=CURVES, by=["level"]),
    "choose_clusters": partial(chosen, clustered=True, candidates=CURVES, allowed=["level"]),
    "choose_classes": partial(chosen, 3, 500),
    "choose_count": partial(chosen, response="count"),
}  # fmt: skip
