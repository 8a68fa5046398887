"""Make audit_sample.json: an audit's dictionary with every key of the schema, from the bundled flights.

The page's tests read the file, not the library, so that the page can be judged without the computation behind it. The
statistics here are plain normal approximations: right in shape, not what the library computes. Every third row is used.
"""

# ruff: noqa: E501, B905
from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "miscal" / "datasets" / "flights.parquet"
VARIABLES = [
    "hour",
    "distance",
    "temperature",
    "humidity",
    "wind_speed",
    "precipitation",
    "pressure",
    "visibility",
    "plane_year",
    "seats",
]
FIELDS = ["carrier", "origin", "destination", "weekday", "month", "manufacturer"]
TESTS = 400


def tally(codes, size, p, y):
    rows = np.bincount(codes, minlength=size).astype(float)
    safe = np.maximum(rows, 1)
    predicted = np.bincount(codes, p, size) / safe
    observed = np.bincount(codes, y, size) / safe
    noise = np.sqrt(np.bincount(codes, p * (1 - p), size)) / safe
    gap = predicted - observed
    wide = stats.norm.isf(0.025 / TESTS) * np.sqrt(np.maximum(observed * (1 - observed), 1 / safe) / safe)
    p_value = np.minimum(TESTS * 2 * stats.norm.sf(np.abs(gap) / np.maximum(noise, 1e-12)), 1)
    return {
        "rows": rows, "weight": rows, "predicted": predicted, "observed": observed, "gap": gap,
        "gap_low": gap - wide, "gap_high": gap + wide, "band_low": np.maximum(predicted - 1.96 * noise, 0),
        "band_high": predicted + 1.96 * noise, "p_value": p_value,
    }  # fmt: skip


def aggregate(table):
    share = table["rows"] / table["rows"].sum()
    value = float((share * np.abs(table["gap"])).sum())
    spread = (table["band_high"] - table["predicted"]) / 1.96
    floor = float((share * spread).sum() * math.sqrt(2 / math.pi))
    sd = float(np.sqrt((share**2 * spread**2).sum()))
    return {"value": value, "noise_floor": floor, "p_value": max(float(2 * stats.norm.sf((value - floor) / sd)), 0.001) if value > floor else 0.6, "interval": [max(0, value - floor * 1.5), value + floor * 1.5]}  # fmt: skip


def result(name, kind, table, settings, extra=None):
    method = "matched binomial draws of the cell sums, 999 simulations; Holm over the whole audit for cells"
    return {
        "name": name,
        "kind": kind,
        **aggregate(table),
        "method": method,
        "table": table,
        "settings": settings,
        "extra": extra or {},
    }


def score_section(p, y):
    edges = np.unique(np.quantile(p, np.linspace(0, 1, 16)))
    codes = np.searchsorted(edges[1:-1], p)
    table = {"low": edges[:-1], "high": edges[1:], **tally(codes, len(edges) - 1, p, y)}
    fine = np.linspace(0, 1, 51)
    order = np.argsort(p)
    walk = np.concatenate([[0], np.cumsum((p - y)[order])]) / len(p)
    noise = np.concatenate([[0], np.sqrt(np.cumsum((p * (1 - p))[order]))]) / len(p) * 1.96
    at = np.unique(np.linspace(0, len(p), 401).astype(int))
    cumulative = {
        "x": at / len(p),
        "y": walk[at],
        "score": np.concatenate([[p.min()], p[order]])[at],
        "band": noise[at],
    }
    extra = {"cumulative": cumulative, "histogram": {"edges": fine, "rows": np.histogram(p, fine)[0]}}
    return result("expected calibration error", "score", table, {"bins": 15, "strategy": "quantile"}, extra), walk


def main() -> None:
    frame = pq.read_table(SOURCE).to_pandas().iloc[::3]
    y, p = frame["late"].to_numpy(float), frame["probability"].to_numpy(float)
    score, walk = score_section(p, y)
    variables, fields, findings, clean, small = [], [], [], [], []
    for name in VARIABLES:
        values = frame[name].to_numpy(float)
        known = np.isfinite(values)
        edges = np.unique(np.quantile(values[known], np.linspace(0, 1, 11)))
        size = len(edges) - 1 + int(not known.all())
        codes = np.where(known, np.searchsorted(edges[1:-1], values), size - 1)
        low, high = edges[:-1], edges[1:]
        if not known.all():
            low, high = np.append(low, np.nan), np.append(high, np.nan)
        table = {"low": low, "high": high, **tally(codes, size, p, y)}
        variables.append(result(name, "variable", table, {"variable": name, "bins": 10}))
        labels = [f"{name} {a:g} to {b:g}" if a == a else f"{name} missing" for a, b in zip(low, high)]
        collect(name, "variable", labels, table, findings, clean, small, variables[-1])
    for name in FIELDS:
        codes, levels = __import__("pandas").factorize(frame[name].astype(object), use_na_sentinel=False)
        labels = ["missing" if v != v or v is None else str(v) for v in levels]
        table = {"level": labels, **tally(codes, len(labels), p, y)}
        fields.append(result(name, "field", table, {"field": name}))
        collect(name, "field", [f"{name} {v}" for v in labels], table, findings, clean, small, fields[-1])
    findings.sort(key=lambda f: -min(map(abs, f["interval"])) * f["rows"])
    for number, finding in enumerate(findings):
        finding["parent"] = findings[0]["where"] if number in (4, 6, 7, 9) else None
        finding["specific"] = number % 3 != 2
    for where, gap in (("carrier FL × origin EWR", 0.021), ("seats 2 to 8", -0.034)):  # gaps that noise explains
        findings.append({**findings[-1], "where": where, "kind": "subpopulation", "rows": 160, "weight": 160.0, "gap": gap, "predicted": 0.2, "observed": 0.2 - gap,
                         "interval": [gap - 0.07, gap + 0.07], "events_off": 160 * gap, "p_value": 0.72, "real": False, "parent": None})  # fmt: skip
    for where in ("gate", "crew base"):
        clean.append(
            {
                "where": where,
                "kind": "field",
                "columns": [where],
                "value": 0.0041,
                "noise_floor": 0.0046,
                "p_value": 0.61,
                "detectable": 0.024,
            }
        )
    gap, sd = float((p - y).mean()), math.sqrt((p * (1 - p)).sum()) / len(p)
    numbers = {
        "predicted": p.mean(), "observed": y.mean(), "gap": gap, "expected": score["value"], "maximum": float(np.abs(score["table"]["gap"]).max()),
        "smooth": 0.0268, "kuiper": float(walk.max() - walk.min()), "slope": 0.883, "intercept": -0.011, "in_the_large": 0.213, "ratio": p.mean() / y.mean(),
        "log_loss": float(-(y * np.log(p) + (1 - y) * np.log1p(-p)).mean()), "brier": float(((y - p) ** 2).mean()), "auc": 0.719,
    }  # fmt: skip
    details = {
        "gap": {"p_value": float(2 * stats.norm.sf(abs(gap) / sd)), "interval": [gap - 1.96 * sd, gap + 1.96 * sd]},
        "expected": {k: score[k] for k in ("noise_floor", "p_value", "interval", "method")},
        "kuiper": {"p_value": 1e-12, "noise_floor": 0.0025, "interval": [numbers["kuiper"] - 0.005, numbers["kuiper"] + 0.005]},
        "smooth": {"p_value": 0.001, "noise_floor": 0.0031, "interval": [0.022, 0.031]},
        "slope": {"interval": [0.861, 0.905], "p_value": 1e-9}, "intercept": {"interval": [-0.04, 0.02], "p_value": 0.4},
        "in_the_large": {"interval": [0.19, 0.235], "p_value": 1e-9}, "ratio": {"interval": [numbers["ratio"] - 0.01, numbers["ratio"] + 0.01]},
    }  # fmt: skip
    document = {
        "schema": "miscal.audit/1", "version": "0.1.0",
        "data": {"rows": len(y), "weight": float(len(y)), "outcome": "late", "probability": "probability", "fingerprint": "9f2c1e7ab04d3358", "source": "flights.parquet"},
        "settings": {"target": "positive", "level": 0.05, "effort": "normal", "null": "bernoulli", "random_state": 0, "by": None, "ignore": ["tail_number"]},
        "score": {**numbers, "details": details}, "findings": findings, "clean": clean, "too_small": small[:40],
        "sections": {"score": [score], "variable": variables, "field": fields},
    }  # fmt: skip
    (HERE / "audit_sample.json").write_text(json.dumps(plain(document), allow_nan=False), encoding="utf-8")


def collect(name, kind, labels, table, findings, clean, small, whole):
    """The strongest cells become findings, a column without any is clean, cells of few rows are too small."""
    strength = np.where(table["gap"] > 0, table["gap_low"], -table["gap_high"]) * table["rows"]
    real = np.flatnonzero((table["p_value"] <= 0.05) & (strength > 0))
    for i in real[np.argsort(-strength[real])][:2]:
        findings.append({
            "code": f"MC{201 if kind == 'variable' else 301}", "kind": kind, "where": labels[i], "columns": [name], "levels": [labels[i].removeprefix(name + " ")],
            "rows": int(table["rows"][i]), "weight": float(table["rows"][i]), "predicted": table["predicted"][i], "observed": table["observed"][i], "gap": table["gap"][i],
            "interval": [table["gap_low"][i], table["gap_high"][i]], "events_off": table["gap"][i] * table["rows"][i], "p_value": table["p_value"][i], "real": True, "specific": True, "parent": None,
        })  # fmt: skip
    if not len(real):
        clean.append(
            {
                "where": name,
                "kind": kind,
                "columns": [name],
                "value": whole["value"],
                "noise_floor": whole["noise_floor"],
                "p_value": whole["p_value"],
                "detectable": 0.024,
            }
        )
    small += [
        {
            "where": labels[i],
            "kind": kind,
            "columns": [name],
            "rows": int(table["rows"][i]),
            "reason": "fewer than 5 expected events",
        }
        for i in np.flatnonzero(table["rows"] < 20)
    ]


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else value


if __name__ == "__main__":
    main()
