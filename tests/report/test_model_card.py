"""The block for a model card: short, whole, and safe in any markdown."""

from __future__ import annotations

import re

import numpy as np

import miscal


def audited(name: str = "state") -> miscal.Audit:
    rng = np.random.default_rng(2)
    rows = 4000
    p, state = rng.uniform(0.35, 0.65, rows), rng.choice(list("abcdefgh"), rows)
    shift = dict(zip("abcdefgh", [0.3, -0.3, -0.25, 0.25, 0.2, -0.2, 0.28, -0.28], strict=True))
    y = rng.random(rows) < np.clip(p + np.array([shift[level] for level in state]), 0, 1)
    table = {"y": y, "p": p, name: state, "quiet": rng.normal(size=rows)}
    return miscal.audit(table, outcome="y", probability="p", effort="quick", source="loans.csv")


def test_a_model_card_says_what_a_reader_of_one_asks() -> None:
    found = audited()
    text = found.to_model_card()
    assert re.findall(r"^#+ .*", text, re.M) == [
        "## Calibration", "### Where the model is miscalibrated", "### No significant gap", "### Method",
    ]  # fmt: skip
    heads = [finding for finding in found.findings if finding.real and not finding.parent]
    listed = re.findall(r"^\d\. \*\*(.*?)\*\*", text, re.M)
    assert listed == [head.where for head in heads[:5]]
    assert len(heads) > 5
    assert f"{len(heads) - 5} further segment" in text
    assert f"| quiet | {100 * found.clean[0]['detectable']:.3g}" in text
    assert "4,000 rows of loans.csv" in text
    assert "not trained on these rows" in text
    assert len(text.splitlines()) < 60


def test_a_hostile_name_stays_a_name() -> None:
    text = audited("a|b\n# <script>[x](y)\x1b[31m").to_model_card()
    assert "\x1b" not in text
    assert "<script>" not in text
    assert "\n# " not in text
    assert "](" not in text.replace("\\]", "")  # an escaped bracket closes no link


def test_a_model_card_of_rates_says_what_they_are_a_unit_of() -> None:
    rng = np.random.default_rng(4)
    years = rng.uniform(0.2, 1.0, 2000)
    table = {"claims": rng.poisson(0.2 * years), "rate": rng.uniform(0.1, 0.3, 2000), "years": years}
    named = {"outcome": "claims", "prediction": "rate", "response": "count", "exposure": "years"}
    text = miscal.audit(table, effort="quick", **named).to_model_card()
    assert "- outcome claims, prediction rate, per unit of exposure years\n" in text
