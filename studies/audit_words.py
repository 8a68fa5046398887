"""What the command prints for five real tables, as they come or as people keep them: docs/how-to/words.md shows it.

    MISCAL_DATA=folder python -m studies.audit_words [--quick] [--src OTHER/src --spelled]

Each table is written to a temporary folder and audited by the command line that the block begins with. With --src the
command is that of another version of the code, and --spelled gives it the names that it needs: what is printed is then
kept as `before`. Results: studies/results/audit_words.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from miscal.datasets import flights
from studies.needs import need

DATA = Path(os.environ.get("MISCAL_DATA", "data"))
RESULTS = Path(__file__).parent / "results" / "audit_words.json"
ROOT = Path(__file__).parents[1]


def _halves(frame: pd.DataFrame, outcome: str, model, drop: list[str]) -> pd.DataFrame:
    """Train on one random half of the rows; the other half with its scores in `score`."""
    train = np.random.default_rng(0).random(len(frame)) < 0.5
    coded = frame.drop(columns=[outcome, *drop])
    coded = coded.apply(lambda column: column if column.dtype.kind in "if" else pd.factorize(column)[0])
    model.fit(coded[train], frame.loc[train, outcome])
    return frame[~train].assign(score=model.predict_proba(coded[~train])[:, 1])


def adult(folder: Path) -> Path:
    """The authors' own file: two columns of predict_proba, the class predicted, and the outcome once more."""
    path = folder / "adult.csv"
    pd.read_parquet(DATA / "adult_kelly_mlp_test.parquet").to_csv(path)  # with the index, as pandas writes it
    return path


def cifar(folder: Path) -> Path:
    """The authors' own file: ten classes."""
    path = folder / "cifar10h.parquet"
    frame = pd.read_parquet(DATA / "cifar10h_densenet_rt.parquet")
    frame.drop(columns=[name for name in frame if name.startswith("human")]).to_parquet(path)
    return path


def forest(folder: Path) -> Path:
    """Votes of 100 trees, some of which are unanimous."""
    frame = pd.read_parquet(DATA / "credit_default_taiwan.parquet")
    path = folder / "forest.csv"
    _halves(frame, "y", RandomForestClassifier(100, random_state=0, n_jobs=1), []).to_csv(path, index=False)
    return path


def flown(folder: Path) -> Path:
    """The bundled flights: days err together."""
    path = folder / "flights.parquet"
    columns = ["date", "carrier", "origin", "destination", "hour", "distance", "late", "probability"]
    flights().select(columns).to_pandas().iloc[::4].to_parquet(path, index=False)
    return path


def loans(folder: Path) -> Path:
    """Loans as a spreadsheet keeps them: days as 31.12.2005, probabilities as 12,34%."""
    frame = pd.read_parquet(DATA / "sba_loans.parquet").sample(40_000, random_state=0).sort_index()
    frame = frame[["approval_date", "State", "NoEmp", "NewExist", "UrbanRural", "LowDoc", "GrAppv", "y"]]
    made = _halves(frame, "y", HistGradientBoostingClassifier(random_state=0), ["approval_date"])
    made["score"] = [f"{100 * value:.2f}%".replace(".", ",") for value in made["score"]]
    made["approval_date"] = pd.to_datetime(made["approval_date"]).dt.strftime("%d.%m.%Y")
    path = folder / "loans.csv"
    made.to_csv(path, index=False, sep=";")
    return path


TABLES = {  # the names that the version before needed
    "adult": (adult, ["--outcome", "y", "--probability", "mlp_prob_1"]),
    "cifar10h": (cifar, ["--outcome", "y_true", *(w for k in range(10) for w in ("--probability", f"prob_{k}"))]),
    "forest": (forest, ["--outcome", "y", "--probability", "score"]),
    "flights": (flown, ["--outcome", "late", "--probability", "probability"]),
    "loans": (loans, ["--outcome", "y", "--probability", "score"]),
}


def printed(path: Path, words: list[str], source: Path) -> str:
    """What the command prints."""
    line = [sys.executable, "-m", "miscal", "audit", path.name, *words, "--effort", "quick"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(line, cwd=path.parent, env=environment, capture_output=True, text=True, check=False)
    return f"$ miscal audit {' '.join([path.name, *words])} --effort quick\n{(done.stdout + done.stderr).strip()}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--src", type=Path, default=ROOT / "src")
    parser.add_argument(
        "--spelled", action="store_true", help="name outcome and probability, as older versions ask for"
    )
    parser.add_argument("--quick", action="store_true", help="the classes of images alone; nothing is written")
    asked = parser.parse_args()
    need("MISCAL_DATA")
    made = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ["cifar10h"] if asked.quick else TABLES:
            make, words = TABLES[name]
            typed = words if asked.spelled else []
            text = printed(make(Path(folder)), typed, asked.src.resolve())
            made.setdefault(name, {})["before" if asked.spelled else "after"] = text
            print(text, end="\n\n")
    if not asked.quick:
        RESULTS.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
