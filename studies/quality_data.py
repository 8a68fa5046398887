"""The tables of the quality study: models trained here once, then rows that they have not seen, split by seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

CALIBRATE, TEST = 4000, 8000
CLASSES_CALIBRATE, CLASSES_TEST = 3000, 6000


@dataclass(frozen=True)
class Pool:
    """Rows that the model was not trained on; `variable` and `field` are audited, all of `columns` may be used."""

    name: str
    model: str
    probability: np.ndarray  # (n,) or (n, K)
    outcome: np.ndarray
    columns: pd.DataFrame
    variable: str
    field: str

    @property
    def several(self) -> bool:
        return self.probability.ndim == 2

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows to calibrate on and rows to test on."""
        size, beside = (CLASSES_CALIBRATE, CLASSES_TEST) if self.several else (CALIBRATE, TEST)
        order = np.random.default_rng(seed).permutation(len(self.outcome))
        return order[:size], order[size : size + beside]


def _sample(frame: pd.DataFrame, rows: int) -> pd.DataFrame:
    chosen = np.sort(np.random.default_rng(0).permutation(len(frame))[:rows])
    return frame.iloc[chosen].reset_index(drop=True)


def _text(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return frame.assign(**{name: frame[name].astype("string").fillna("missing").astype(object) for name in names})


def adult(folder: Path) -> Pool:
    """A naive Bayes classifier of the numeric attributes, trained on the official training part."""
    from sklearn.naive_bayes import GaussianNB

    frame = pd.read_parquet(folder / "adult.parquet")
    features = ["age", "education_num", "hours_per_week", "capital_gain", "capital_loss"]
    train, pool = frame[frame["split"] == "train"], frame[frame["split"] == "test"].reset_index(drop=True)
    model = GaussianNB().fit(train[features], train["y"])
    probability = model.predict_proba(pool[features])[:, 1]
    columns = _text(pool[["age", "education_num", "occupation", "race"]], ["occupation", "race"])
    return Pool("Adult", "naive Bayes", probability, pool["y"].to_numpy(), columns, "age", "occupation")


def adult_boosted(folder: Path) -> Pool:
    """Gradient boosting of all attributes, trained on the official training part: little is left to repair."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame = pd.read_parquet(folder / "adult.parquet")
    features = pd.get_dummies(frame.drop(columns=["y", "split", "native_country", "fnlwgt"])).astype(float)
    own = (frame["split"] == "train").to_numpy()
    model = HistGradientBoostingClassifier(max_iter=100, random_state=0).fit(features[own], frame["y"][own])
    pool = frame[~own].reset_index(drop=True)
    columns = _text(pool[["age", "education_num", "occupation", "race"]], ["occupation", "race"])
    probability = model.predict_proba(features[~own])[:, 1]
    return Pool("Adult", "gradient boosting", probability, pool["y"].to_numpy(), columns, "age", "occupation")


def income(folder: Path) -> Pool:
    """A logistic regression of the codes as numbers."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame = _sample(pd.read_parquet(folder / "folktables2018_ACSIncome.parquet"), 40_000)
    features = ["AGEP", "SCHL", "WKHP", "SEX", "MAR"]
    train, pool = frame.iloc[:15_000], frame.iloc[15_000:].reset_index(drop=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[features], train["y"])
    columns = _text(pool[["AGEP", "WKHP", "RAC1P", "COW"]], ["RAC1P", "COW"])
    probability = model.predict_proba(pool[features])[:, 1]
    return Pool("ACSIncome", "logistic regression", probability, pool["y"].to_numpy(), columns, "AGEP", "COW")


def credit(folder: Path) -> Pool:
    """A small random forest."""
    from sklearn.ensemble import RandomForestClassifier

    frame = _sample(pd.read_parquet(folder / "credit_default_taiwan.parquet"), 30_000)
    features = [name for name in frame.columns if name != "y"]
    train, pool = frame.iloc[:12_000], frame.iloc[12_000:].reset_index(drop=True)
    model = RandomForestClassifier(60, min_samples_leaf=3, random_state=0).fit(train[features], train["y"])
    columns = _text(pool[["LIMIT_BAL", "AGE", "EDUCATION", "SEX"]], ["EDUCATION", "SEX"])
    probability = model.predict_proba(pool[features])[:, 1]
    return Pool("Credit default", "random forest", probability, pool["y"].to_numpy(), columns, "LIMIT_BAL", "EDUCATION")


def loans(folder: Path) -> Pool:
    """Gradient boosting trained on the first 60% of loans in time, judged on the next 20%."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    names = ["Term", "NoEmp", "NewExist", "DisbursementGross", "SBA_Appv", "State", "naics2", "y"]
    frame = pq.read_table(folder / "sba_loans.parquet", columns=names).to_pandas()
    cut, end = int(0.6 * len(frame)), int(0.8 * len(frame))
    train, pool = _sample(frame.iloc[:cut], 20_000), _sample(frame.iloc[cut:end], 20_000)
    features = names[:5]
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    model.fit(train[features].astype(float), train["y"])
    columns = _text(pool[["Term", "NoEmp", "State", "naics2"]], ["State", "naics2"])
    probability = model.predict_proba(pool[features].astype(float))[:, 1]
    return Pool("SBA loans", "gradient boosting", probability, pool["y"].to_numpy(), columns, "Term", "State")


def flights(folder: Path) -> Pool:  # noqa: ARG001  # bundled: no folder is needed
    """The bundled predictions: trained on January to June, judged on July to December."""
    from miscal.datasets import flights as bundled

    frame = _sample(bundled().to_pandas(), 20_000)
    columns = _text(frame[["hour", "temperature", "carrier", "origin"]], ["carrier", "origin"])
    probability, outcome = frame["probability"].to_numpy(), frame["late"].to_numpy().astype(int)
    return Pool("Flights", "bundled", probability, outcome, columns, "hour", "carrier")


def _images(name: str, model: str, probability: np.ndarray, label: np.ndarray) -> Pool:
    probability = probability / probability.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(probability * np.log(probability), axis=1)
    columns = pd.DataFrame({"entropy": entropy, "predicted": probability.argmax(axis=1).astype(str)})
    return Pool(name, model, probability, label, columns, "entropy", "predicted")


def cifar10(folder: Path) -> Pool:
    """Published logits of a ResNet-110."""
    frame = pd.read_parquet(folder / "cifar10_resnet110_logits.parquet")
    logits = frame[[f"logit_{k}" for k in range(10)]].to_numpy(dtype=float)
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    return _images("CIFAR-10", "ResNet-110", grown, frame["label"].to_numpy().astype(int))


def cifar100(folder: Path) -> Pool:
    """Published probabilities of a DenseNet."""
    frame = pd.read_parquet(folder / "netcal_densenet_bc_100_cifar_100.parquet")
    probability = frame[[f"prob_{k}" for k in range(100)]].to_numpy(dtype=float)
    return _images("CIFAR-100", "DenseNet-BC-100", probability, frame["label"].to_numpy().astype(int))


POOLS: dict[str, Callable[[Path], Pool]] = {
    "adult": adult, "boosted": adult_boosted, "income": income, "credit": credit, "loans": loans, "flights": flights,
    "cifar10": cifar10, "cifar100": cifar100,
}  # fmt: skip
