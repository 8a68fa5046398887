"""An evaluator for MLflow, `evaluators=["miscal"]` of `mlflow.models.evaluate`.

The predictions are probabilities: a column of the data, or what the model gives. Metrics and the page are logged to the
run. `evaluator_config` goes to `miscal.audit`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from mlflow.models.evaluation import EvaluationResult, ModelEvaluator
from mlflow.tracking import MlflowClient

MEASURES = ("expected", "kuiper", "smooth", "slope")


class Evaluator(ModelEvaluator):  # type: ignore[misc]
    """Audits the probabilities of a classifier, and logs what it finds."""

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: Any, **_: Any) -> bool:  # noqa: ARG003
        """Whether it is for this kind of model."""
        return model_type in (None, "classifier")

    def evaluate(
        self, *, dataset: Any, run_id: str, evaluator_config: Any, model: Any = None, **_: Any
    ) -> EvaluationResult:
        """Audit the data and log metrics `miscal_...` and the page `miscal.html`."""
        from miscal import Predictions, audit

        features = dataset.features_data
        given = dataset.predictions_data if model is None else _probabilities(model, features)
        asked = evaluator_config or {}
        options = {name: value for name, value in asked.items() if not name.startswith("_")}
        rows = Predictions(np.asarray(dataset.labels_data), np.asarray(given, dtype=float), columns=features)
        found = audit(rows, **options)
        metrics = {f"miscal_{name}": float(found.score[name]) for name in MEASURES if name in found.score}
        metrics["miscal_findings"] = float(sum(each.real and not each.parent for each in found.findings))
        client = MlflowClient()
        for name, value in metrics.items():
            client.log_metric(run_id, name, value)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "miscal.html"
            found.to_html(page)
            client.log_artifact(run_id, str(page))
        return EvaluationResult(metrics=metrics, artifacts={})


def _probabilities(model: Any, features: Any) -> Any:
    """What the model itself says of probabilities: `predict` of many models gives labels."""
    inner: Any = getattr(model, "_model_impl", None)
    inner = getattr(inner, "sklearn_model", inner)
    return inner.predict_proba(features) if hasattr(inner, "predict_proba") else model.predict(features)
