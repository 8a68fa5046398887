"""The evaluator in a real MLflow that keeps its runs in a folder; MLFLOW_PYTHON names an interpreter that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
import mlflow, numpy as np, pandas as pd
from sklearn.linear_model import LogisticRegression

mlflow.set_tracking_uri("sqlite:///" + sys.argv[1] + "/runs.db")
rng = np.random.default_rng(0)
score = rng.random(2000)
frame = pd.DataFrame({"score": score, "state": rng.choice(["NY", "CA"], 2000), "late": rng.random(2000) < score**3})
frame["late"] = frame["late"].astype(int)
with mlflow.start_run() as run:
    options = {"targets": "late", "model_type": "classifier", "evaluators": ["miscal"]}
    result = mlflow.models.evaluate(data=frame, predictions="score", **options)
    kept = mlflow.MlflowClient().get_run(run.info.run_id).data.metrics
    files = [each.path for each in mlflow.MlflowClient().list_artifacts(run.info.run_id)]
model = LogisticRegression().fit(frame[["score"]], frame["late"])
with mlflow.start_run():
    info = mlflow.sklearn.log_model(model, name="model")
    own = mlflow.models.evaluate(info.model_uri, frame[["score", "late"]], **options).metrics
print(json.dumps({"kept": kept, "result": result.metrics, "files": files, "own": own}))
"""


def test_the_evaluator_is_named() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points."mlflow.model_evaluator"]\nmiscal = "miscal.mlflow_plugin:Evaluator"' in text


@pytest.mark.slow
def test_an_evaluation(tmp_path: Path) -> None:
    python = os.environ.get("MLFLOW_PYTHON") or (sys.executable if find_spec("mlflow") else "")
    if not python:
        pytest.skip("mlflow is not installed: pip install mlflow, or name an interpreter in MLFLOW_PYTHON")
    named = tmp_path / "miscal-0.dist-info"  # the entry point, as an installation has it
    named.mkdir()
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: miscal\nVersion: 0\n", encoding="utf-8")
    point = "[mlflow.model_evaluator]\nmiscal = miscal.mlflow_plugin:Evaluator\n"
    (named / "entry_points.txt").write_text(point, encoding="utf-8")
    paths = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    run = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([python, "-c", SCRIPT, str(tmp_path)], env={**os.environ, "PYTHONPATH": paths}, **run)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kept"]["miscal_expected"] == pytest.approx(found["result"]["miscal_expected"])
    assert found["kept"]["miscal_expected"] > 0.2  # score**3 happens, score is said
    assert found["kept"]["miscal_findings"] >= 1
    assert "miscal.html" in found["files"]
    assert found["own"]["miscal_expected"] < 0.1  # the probabilities of the model, not its labels
