"""An evaluator for MLflow: `mlflow.models.evaluate(..., evaluators=["miscal"])`.

The predictions are probabilities: a column of the data, or what the model predicts. Metrics and report are logged to
the run. `evaluator_config` has options of `miscal.audit`.
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
    """Audits the probabilities of a classifier and logs metrics and the report."""

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: Any, **_: Any) -> bool:  # noqa: ARG003
        """Whether the model is of a type that can be audited."""
        return model_type in (None, "classifier")

    def evaluate(
        self, *, dataset: Any, run_id: str, evaluator_config: Any, model: Any = None, **_: Any
    ) -> EvaluationResult:
        """Audit the data and log the metrics `miscal_...` and the report `miscal.html`."""
        from miscal import Predictions, audit

        features = dataset.features_data
        probabilities = dataset.predictions_data if model is None else _probabilities(model, features)
        config = evaluator_config or {}
        options = {name: value for name, value in config.items() if not name.startswith("_")}
        rows = Predictions(
            np.asarray(dataset.labels_data), np.asarray(probabilities, dtype=float), columns=features
        )
        result = audit(rows, **options)
        metrics = {f"miscal_{name}": float(result.score[name]) for name in MEASURES if name in result.score}
        metrics["miscal_findings"] = float(
            sum(finding.real and not finding.parent for finding in result.findings)
        )
        client = MlflowClient()
        for name, value in metrics.items():
            client.log_metric(run_id, name, value)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "miscal.html"
            result.to_html(path)
            client.log_artifact(run_id, str(path))
        return EvaluationResult(metrics=metrics, artifacts={})


def _probabilities(model: Any, features: Any) -> Any:
    """The probabilities of the model itself; `predict` of many models returns labels."""
    inner: Any = getattr(model, "_model_impl", None)
    inner = getattr(inner, "sklearn_model", inner)
    return inner.predict_proba(features) if hasattr(inner, "predict_proba") else model.predict(features)
