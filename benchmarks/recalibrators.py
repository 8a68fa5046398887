"""CPU time of fitting against the usual packages, in one run: beta, temperature and isotonic at a million rows.

    python benchmarks/recalibrators.py [--quick | rows]

Each is fitted several times and the least CPU time (all threads together) counts; kernels are compiled before. The
losses show that the optimum is the same or better. betacal is compared where it is installed.
"""

from __future__ import annotations

import math
import sys
import time
import warnings

import harness
import numpy as np
from sklearn.calibration import _TemperatureScaling
from sklearn.isotonic import IsotonicRegression

from miscal.recalibrate import BetaCalibration, IsotonicCalibration, TemperatureScaling

GOALS = {"beta": 8.0, "temperature, 10 classes": 3.0, "isotonic": 2.0}


def seconds(work, times):
    best, answer = np.inf, None
    for _ in range(times):
        start = time.process_time()
        answer = work()
        best = min(best, time.process_time() - start)
    return best, answer


def log_loss(likely, y):
    return float(-np.log(np.clip(likely[np.arange(len(y)), y], 1e-300, 1)).mean())


def pairs(p):
    return np.stack([1 - p, p], axis=1)


def beta(p, y):
    ours = seconds(lambda: BetaCalibration().fit(p, y), 5)
    if harness.lacks("package betacal"):
        return ours[0], math.nan, log_loss(ours[1].predict_proba(p), y), math.nan, "betacal"
    from betacal import BetaCalibration as Peer

    theirs = seconds(lambda: Peer("abm").fit(p[:, None], y), 2)
    return (
        ours[0],
        theirs[0],
        log_loss(ours[1].predict_proba(p), y),
        log_loss(pairs(theirs[1].predict(p)), y),
        "betacal",
    )


def temperature(P, y):
    ours = seconds(lambda: TemperatureScaling().fit(P, y), 5)
    logits = np.log(P)
    theirs = seconds(lambda: _TemperatureScaling().fit(logits, y), 2)
    peer = theirs[1].predict(logits)
    return ours[0], theirs[0], log_loss(ours[1].predict_proba(P), y), log_loss(peer, y), "scikit-learn"


def isotonic(p, y):
    ours = seconds(lambda: IsotonicCalibration().fit(p, y), 5)
    theirs = seconds(lambda: IsotonicRegression(out_of_bounds="clip").fit(p, y), 3)
    made, peer = ours[1].predict_proba(p)[:, 1], theirs[1].predict(p)
    return ours[0], theirs[0], float(((made - y) ** 2).mean()), float(((peer - y) ** 2).mean()), "scikit-learn"


def tasks(rows):
    """What is fitted, to scores and outcomes of so many rows."""
    rng = np.random.default_rng(0)
    p = np.clip(rng.beta(0.8, 1.6, rows), 1e-9, 1 - 1e-9)
    y = (rng.random(rows) < 1 / (1 + np.exp(-(1.1 * np.log(p / (1 - p)) + 0.1)))).astype(np.int64)
    z = rng.normal(size=(rows, 10)) * 2
    P, true = np.exp(z), np.exp(z / 1.5)
    P /= P.sum(axis=1, keepdims=True)
    true /= true.sum(axis=1, keepdims=True)
    label = (true.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(0, 9)
    return {"beta": (beta, p, y), "temperature, 10 classes": (temperature, P, label), "isotonic": (isotonic, p, y)}


def rows(quick: bool = False) -> list[dict]:
    """Lines of the common table."""
    if not quick:
        harness.need("package betacal")
    size = 10_000 if quick else 1_000_000
    found = []
    for name, (work, scores, outcome) in tasks(size).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs, loss, peer_loss, peer = work(scores, outcome)
        found.append(
            {
                "operation": f"fit {name}",
                "size": size,
                "ours_cpu_s": ours,
                "peer": peer,
                "peer_cpu_s": theirs,
                "ratio": theirs / ours,
                "goal": None if quick else GOALS[name],
                "note": f"loss {loss:.6f}, its {peer_loss:.6f}",
            }
        )
    return found


def main(size=1_000_000):
    works = tasks(size)
    print(f"{size:,} rows; least CPU seconds of a fit, all threads")
    print(f"{'':26}{'miscal':>9}{'peer':>9}{'ratio':>8}{'goal':>6}  {'loss':>14}{'peer loss':>16}")
    good = True
    for name, (work, scores, outcome) in works.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs, loss, peer_loss, peer = work(scores, outcome)
        if math.isnan(theirs):
            print(f"{name:26}{ours:9.3f}")
            continue
        ratio = theirs / ours
        met = ratio >= GOALS[name] and loss <= peer_loss * (1 + 1e-9)
        good &= met
        print(
            f"{name:26}{ours:9.3f}{theirs:9.3f}{ratio:8.1f}{GOALS[name]:6.0f}  {loss:14.10f}{peer_loss:16.10f}"
            f"  {peer}{'' if met else '  MISSED'}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    if "--quick" in sys.argv:
        print(harness.table(rows(quick=True)))
    else:
        raise SystemExit(main(*(int(float(size)) for size in sys.argv[1:])))
