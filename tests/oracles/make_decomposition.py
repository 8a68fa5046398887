"""model-diagnostics: the isotonic (CORP) decomposition of scores."""

from __future__ import annotations

from frozen import inputs, save
from model_diagnostics.scoring import LogLoss, SquaredError, decompose

PARTS = ("miscalibration", "discrimination", "uncertainty", "score")


def main():
    rows = inputs()
    y, weight = rows["y"], rows["weight"]
    values = {}
    for name, score in (("brier", SquaredError()), ("log", LogLoss())):
        for scores in ("p", "tied"):
            for kind, given in (("", None), ("_weighted", weight)):
                found = decompose(y, rows[scores], given, scoring_function=score)
                values[f"{name}_{scores}{kind}"] = {part: found[part][0] for part in PARTS}
    save("decomposition", ["model-diagnostics", "numpy"], values)


if __name__ == "__main__":
    main()
