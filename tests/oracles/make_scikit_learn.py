"""scikit-learn: curves, losses, isotonic regression, area under the curve."""

from __future__ import annotations

from frozen import inputs, save
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score


def main():
    rows = inputs()
    y, p, tied, weight = rows["y"], rows["p"], rows["tied"], rows["weight"]
    values = {}
    for strategy in ("uniform", "quantile"):
        observed, predicted = calibration_curve(y, p, n_bins=10, strategy=strategy)
        values[f"curve_{strategy}"] = {"observed": observed, "predicted": predicted}
    values["brier"] = brier_score_loss(y, p)
    values["brier_weighted"] = brier_score_loss(y, p, sample_weight=weight)
    values["log_loss"] = log_loss(y, p)
    values["log_loss_weighted"] = log_loss(y, p, sample_weight=weight)
    values["log_loss_classes"] = log_loss(rows["labels"], rows["classes"])
    values["isotonic"] = IsotonicRegression(y_min=0, y_max=1).fit(p, y, weight).predict(p)
    values["isotonic_tied"] = IsotonicRegression(y_min=0, y_max=1).fit(tied, y).predict(tied)
    values["area"] = roc_auc_score(y, p)
    values["area_tied_weighted"] = roc_auc_score(y, tied, sample_weight=weight)
    confidence = rows["classes"].max(axis=1)
    correct = rows["classes"].argmax(axis=1) == rows["labels"]
    values["area_top"] = roc_auc_score(correct, confidence)
    save("scikit_learn", ["scikit-learn", "numpy"], values)


if __name__ == "__main__":
    main()
