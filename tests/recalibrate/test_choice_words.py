"""`choose` says why in codes; sentences are made from them at the end, and change nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miscal import words
from miscal.codes.recalibration import Change, Choice, ChoiceNote, ChoiceReason, Loss
from miscal.data.errors import MiscalWarning
from miscal.recalibrate import BetaCalibration, PlattScaling, choose
from miscal.words.recalibration import choice_sentence


@pytest.mark.parametrize("code", [*ChoiceReason, *ChoiceNote, *Loss])
def test_every_code_has_a_template(code: ChoiceReason | ChoiceNote | Loss) -> None:
    assert (type(code), code.value) in words.load_templates()


@pytest.mark.parametrize("reason", ChoiceReason)
@pytest.mark.parametrize("probabilities", [True, False])
def test_every_choice_has_a_sentence(reason: ChoiceReason, probabilities: bool) -> None:
    choice = Choice(reason, Loss.DEVIANCE, 1234, 56, 7, "Beta", 0.01, 0.002, 0.018, probabilities=probabilities)
    sentence = choice_sentence(choice)
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert "{" not in sentence


def test_the_sentence_of_a_gain_holds_its_numbers() -> None:
    choice = Choice(
        ChoiceReason.LOWEST_LOSS,
        Loss.LOG_LOSS,
        rows=4000,
        rows_outside_mode=1500,
        n_candidates=3,
        candidate="Blend",
        gain=0.0123,
        gain_low=0.011,
        gain_high=0.0136,
        weights=(("Beta", 0.7), ("Platt", 0.3)),
        audited_error=Change(0.0091, 0.0057),
        top_label_error=Change(0.01, 0.025),
        keeps_ranking=False,
    )
    assert choice_sentence(choice) == (
        "Blend (70% Beta, 30% Platt) lowers the log loss on held-out rows by 0.0123 (95% CI 0.011 to 0.0136), the best "
        "of 3 candidates or statistically tied with it; mean calibration error across audited columns: 0.91 pp before, "
        "0.57 pp after; the ranking of the predictions may change. The top label's expected calibration error grows "
        "from 1.00 pp to 2.50 pp, which is significant; top_error=0 excludes such candidates."
    )


def test_a_loss_that_was_infinite_is_said_so() -> None:
    choice = Choice(ChoiceReason.LOWEST_LOSS, Loss.LOG_LOSS, 100, 20, 1, "Platt", math.inf, -math.inf, math.inf)
    assert "from infinity" in choice_sentence(choice)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_no_choice_depends_on_words(monkeypatch: pytest.MonkeyPatch, power: float) -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 1500)
    y = rng.random(1500) < p**power
    candidates = {"platt": PlattScaling(), "beta": BetaCalibration()}
    expected = choose(p, y, candidates=candidates)
    for key in words.load_templates():
        monkeypatch.setitem(words.TEMPLATES, key, "nonsense")
    chosen = choose(p, y, candidates=candidates)
    assert chosen.reason == "nonsense"
    assert (chosen.name, chosen.choice) == (expected.name, expected.choice)
    for column, values in expected.table.items():
        np.testing.assert_array_equal(chosen.table[column], values)


def test_what_was_not_chosen_has_no_reason() -> None:
    fitted = PlattScaling().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    assert getattr(fitted, "reason", None) is None


def test_old_names_warn_and_work(rng: np.random.Generator) -> None:
    p = rng.dirichlet(np.ones(3), 300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    fitted = PlattScaling().fit(p, y)
    with pytest.warns(MiscalWarning, match="per_class_"):
        assert fitted.each_ is fitted.per_class_
    with pytest.warns(MiscalWarning, match="out_of_core"):
        from miscal.recalibrate.in_parts import fit_to
    from miscal.recalibrate import out_of_core

    assert fit_to is out_of_core.fit_to
