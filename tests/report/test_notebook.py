"""What a notebook and a prompt show: cards and figures, the worst first; tracebacks that end at the user's line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import miscal
from miscal import MiscalError, Predictions, metrics, recalibrate


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    rows = 3000
    frame = pd.DataFrame(
        {"p": rng.beta(2, 5, rows), "age": rng.normal(40, 10, rows), "state": rng.choice(list("abcd"), rows)}
    )
    frame["other_one"] = rng.normal(size=rows)
    wrong = 0.25 * (frame.state == "a") + 0.12 * (frame.age > 55)
    return frame.assign(y=(rng.random(rows) < np.clip(frame.p + wrong, 0, 1)).astype(int))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="module")
def found(frame: pd.DataFrame) -> miscal.Audit:
    return miscal.audit(frame, outcome="y", probability="p")


NAMED = {"outcome": "y", "probability": "p"}
RESULTS = {
    "score": lambda p: miscal.by_score(p, **NAMED),
    "variable": lambda p: miscal.by_variable(p, "age", **NAMED),
    "crossed": lambda p: miscal.by_variable(p, ["age", "other_one"], bins=3, **NAMED),
    "field": lambda p: miscal.by_field(p, "state", **NAMED),
    "variation": lambda p: miscal.by_variation(p, **NAMED),
    "neighbourhood": lambda p: miscal.by_neighbourhood(p, ["age", "other_one"], simulations=19, **NAMED),
    "subpopulation": lambda p: miscal.by_subpopulation(p, subpopulations=20, simulations=19, **NAMED),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_of_a_frame_shows_as_figures(kind: str, frame: pd.DataFrame) -> None:
    made = RESULTS[kind](frame)
    shown = made._repr_html_()
    assert shown.startswith('<div class="miscal"><style>@scope (.miscal) {')
    assert 'class="figure' in shown
    assert "<script" not in re.sub(r'<script type="application/json">', "", shown)
    assert "np.float64" not in shown + repr(made) + repr(dict(made.settings))
    assert "[&#x27;age" not in shown


def test_a_frame_gives_what_predictions_give(frame: pd.DataFrame) -> None:
    predictions = Predictions(frame.y, frame.p, columns=frame[["age", "state"]])
    one, two = miscal.by_field(predictions, "state"), miscal.by_field(frame, "state", **NAMED)
    assert (one.value, one.p_value, one.table.to_dict()) == (two.value, two.p_value, two.table.to_dict())
    with pytest.raises(MiscalError, match="by_variable needs outcome and probability; data is DataFrame, not Predict"):
        miscal.by_variable(frame, "age")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"by_variable\(\) got an unexpected keyword argument 'oops'"):
        miscal.by_variable(frame, "age", oops=3, **NAMED)
    three = np.random.default_rng(0).dirichlet([1, 1, 1], len(frame))
    classes = frame.assign(y=np.arange(len(frame)) % 3, **{f"p{k}": three[:, k] for k in range(3)})
    made = miscal.by_class(classes, outcome="y", probability={k: f"p{k}" for k in range(3)})
    values = [float(text) for text in re.findall(r'data-label="Average error" data-key="([\d.]+)"', made._repr_html_())]
    assert values == sorted(values, reverse=True)
    assert len(values) == 3


def test_levels_are_listed_with_the_worst_first(frame: pd.DataFrame) -> None:
    shown = miscal.by_field(frame, "state", **NAMED)._repr_html_()
    names = re.findall(r'<th scope="row"><bdi>(\w)</bdi>', shown)
    assert names[0] == "a"
    assert sorted(names) == list("abcd")


def test_an_audit_shows_its_cards_and_figures_worst_first(found: miscal.Audit) -> None:
    shown = found._repr_html_()
    assert "np.float64" not in shown
    assert not re.search(r"\\[_=(<|]", repr(found) + shown)  # markdown's escapes
    cards = re.findall(r"<h3><bdi>(.*?)</bdi>", shown)
    heads = [head.where for head in found.findings if head.real and not head.parent]
    assert cards[0] == heads[0]
    assert len(cards) <= 4
    assert "svg" in shown
    assert len(shown) < 400_000
    assert len(repr(found).splitlines()) <= 30
    assert repr(found).splitlines()[0].startswith("Miscalibrated in one segment, state a")
    assert not hasattr(found, "_repr_markdown_")
    card = found.findings[0]._repr_html_()
    assert found.findings[0].where in card
    assert repr(found.findings[0]).startswith("<MC")
    assert "Since the baseline" in found.compare(found)._repr_html_()


def test_notes_are_a_list_of_sentences(frame: pd.DataFrame, found: miscal.Audit) -> None:
    assert found.notes == found.document["notes"]
    upside = miscal.audit(frame.assign(p=1 - frame.p)[["y", "p"]], outcome="y", probability="p", effort="quick")
    assert upside.notes[0].startswith("The higher the score, the fewer events")
    assert upside.notes[0] in repr(upside)


def test_a_repair_shows_its_page(frame: pd.DataFrame) -> None:
    predictions = Predictions(frame.y, frame.p, columns=frame[["state"]])
    fitted = recalibrate.PlattScaling().fit(frame.p, frame.y)
    assert "Before and after recalibration" in miscal.repair(predictions, fitted, effort="quick")._repr_html_()


@pytest.mark.parametrize(
    "shown",
    [
        lambda f: repr(dict(miscal.by_score(f, bins=np.linspace(0, 1, 5), **NAMED).settings)),
        lambda f: repr(recalibrate.PlattScaling(l2=np.float64(0.5)).fit(f.p, f.y)),
        lambda f: refused(lambda: miscal.by_score(f, bins=np.float64(2.5), **NAMED)),
        lambda f: refused(lambda: metrics.expected_calibration_error(f.y, f.p, bins=[np.True_, np.float64(0.5)])),
    ],
)
def test_numbers_print_as_numbers(frame: pd.DataFrame, shown: Any) -> None:
    text = shown(frame)
    assert text
    assert not re.search(r"\bnp\.", text)


def refused(call: Any) -> str:
    with pytest.raises(MiscalError) as caught:
        call()
    return str(caught.value)


def test_a_notebook_s_traceback_ends_at_the_user_s_line(tmp_path: Path, frame: pd.DataFrame) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"schema": "miscal.audit/1"')
    calls = [lambda: miscal.Audit.load(damaged), lambda: miscal.audit(frame, outcome="why", probability="p")]
    for call in calls:
        with pytest.raises(MiscalError) as caught:
            call()
        lines = caught.value._render_traceback_()
        files = [line for line in lines if line.lstrip().startswith("File ")]
        assert files
        assert all(__file__ in line for line in files)
        assert not any("direct cause" in line or "During handling" in line for line in lines)
        assert any(str(caught.value).splitlines()[0] in line for line in lines)


def test_no_control_is_shown_that_needs_a_script(found: miscal.Audit) -> None:
    shown = found._repr_html_()
    assert not re.search("<(button|select|input)", shown)
