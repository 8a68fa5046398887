"""What each recalibrator that looks at groups does with small, unseen and missing ones, as docs/how-to/repair says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from miscal import recalibrate
from miscal.data.errors import MiscalError
from miscal.recalibrate import GroupWise, PlattScaling, Recalibrator

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")

# A recalibrator, and what an unseen level takes: the commonest level's map, that of all rows, or nothing new.
GROUP_AWARE: dict[str, tuple[Recalibrator, str]] = {
    "GroupWise, parent": (GroupWise(PlattScaling()), "everyone"),
    "GroupWise, global": (GroupWise(PlattScaling(), handle_unknown="global"), "everyone"),
    "GroupWise, identity": (GroupWise(PlattScaling(), handle_unknown="identity"), "identity"),
    "GroupWise, error": (GroupWise(PlattScaling(), handle_unknown="error"), "error"),
    "VariableTree": (recalibrate.VariableTree(), "commonest"),
    "AugmentedLogistic": (recalibrate.AugmentedLogistic(l2=1.0), "commonest"),
    "AugmentedBeta": (recalibrate.AugmentedBeta(l2=1.0), "commonest"),
    "MulticalibrationBoost": (recalibrate.MulticalibrationBoost(rounds=4), "commonest"),
    "Augmentation": (recalibrate.Augmentation(DecisionTreeClassifier(max_depth=4, random_state=0)), "commonest"),
    "NeuralCalibration": (
        recalibrate.NeuralCalibration(hidden=(64,), epochs=25, learning_rate=0.01, progress=False),
        "between",
    ),
    "LocalRecalibration of groups": (recalibrate.LocalRecalibration(kernel="group", bins=1), "identity"),
    "LocalRecalibration": (recalibrate.LocalRecalibration(bandwidth=0.1, bins=1), "between"),
    "Chain": (recalibrate.Chain([PlattScaling(), GroupWise(PlattScaling())]), "everyone"),
}
EACH = pytest.mark.parametrize("name", GROUP_AWARE)
SHIFT = {"common": 0.0, "high": 2.0, "low": -2.0, None: -1.0}


def rows(*, missing: bool, tiny: bool = False) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Half the rows of one level, and levels whose outcomes are far above and below the scores."""
    rng = np.random.default_rng(0)
    levels: list[Any] = ["common", "common", "high", "low", None if missing else "common"]
    state = np.array([levels[i % 5] for i in range(4000)], dtype=object)
    p = rng.uniform(0.2, 0.8, 4000)
    shift = np.array([SHIFT[level] for level in state])
    y = (rng.random(4000) < 1 / (1 + np.exp(-np.log(p / (1 - p)) - shift))).astype(int)
    if tiny:
        chosen = np.flatnonzero(state == "common")[:3]
        state[chosen], y[chosen] = "tiny", 1  # three rows, all events
    return p, y, {"state": state}


def fitted(name: str, **options: Any) -> tuple[Recalibrator, Any, Any]:
    made, _ = GROUP_AWARE[name]
    if type(made).__name__ == "NeuralCalibration":
        pytest.importorskip("torch")
    p, y, X = rows(**options)
    return clone(made).fit(p, y, X), p, y


def at(made: Recalibrator, level: Any) -> float:
    """What becomes of a half; beside another row, so that the column has its type."""
    return float(made.predict_proba([0.5, 0.5], {"state": np.array([level, "common"], dtype=object)})[0, 1])


@EACH
def test_groups_that_fit_saw_are_told_apart(name: str) -> None:
    made, _, _ = fitted(name, missing=True)
    middle = at(made, "common")
    assert at(made, "low") + 0.1 < middle < at(made, "high") - 0.1
    assert at(made, None) < middle - 0.1  # missing is a level of its own: exp(-1) odds are 0.27


@EACH
@pytest.mark.parametrize("missing", [False, True], ids=["unseen", "missing, where fit had none"])
def test_unseen_groups(name: str, missing: bool) -> None:
    made, p, y = fitted(name, missing=False)
    policy, level = GROUP_AWARE[name][1], None if missing else "never seen"
    if policy == "error":
        with pytest.raises(MiscalError, match="levels that fit had"):
            at(made, level)
        return
    found = at(made, level)
    if policy == "commonest":
        assert found == at(made, "common")
    elif policy == "identity":
        assert found == 0.5
    elif policy == "everyone":
        everyone = PlattScaling().fit(p, y)
        if type(made).__name__ == "Chain":
            everyone = recalibrate.Chain([PlattScaling(), PlattScaling()]).fit(p, y)
        assert found == pytest.approx(float(everyone.predict_proba([0.5])[0, 1]), abs=1e-9)
    else:  # no group in particular
        assert at(made, "low") + 0.1 < found < at(made, "high") - 0.1


TAKES_ITS_WORD = {"LocalRecalibration of groups", "LocalRecalibration", "Augmentation"}
JOINS_A_LARGER = {"VariableTree", "MulticalibrationBoost"}  # it shares leaves with similar levels


@EACH
def test_small_groups_are_drawn_to_others(name: str) -> None:
    """Three rows, all events, do not make a certainty, except where the docs say so."""
    made, _, _ = fitted(name, missing=False, tiny=True)
    found = at(made, "tiny")
    if name in TAKES_ITS_WORD:
        assert 0.7 < found <= 1.0
    elif name in JOINS_A_LARGER:
        assert at(made, "common") <= found <= at(made, "high") + 0.05
    else:
        assert 0.2 < found < 0.8


@EACH
@pytest.mark.parametrize("fitted_on", ["text", "numbers", "truth values"])
def test_a_column_that_changed_its_type_is_refused(name: str, fitted_on: str) -> None:
    """Its values would all be unseen, and the map of no group in particular would be applied without a word."""
    if name.startswith("LocalRecalibration"):
        pytest.skip("of nearness, where an unseen level is away from all")
    made, _ = GROUP_AWARE[name]
    if type(made).__name__ == "NeuralCalibration":
        pytest.importorskip("torch")
    kinds = {
        "text": np.where(np.arange(600) % 2, "10", "20"),
        "numbers": np.where(np.arange(600) % 2, 10, 20),
        "truth values": np.arange(600) % 2 == 0,
    }
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, 600)
    fixed = clone(made).fit(p, rng.random(600) < p, {"state": kinds.pop(fitted_on)})
    for other in kinds.values():
        with pytest.raises(MiscalError, match=r"column 'state' must (be|hold) .*, as it (was|did) in fit"):
            fixed.predict_proba(p, {"state": other})


@pytest.mark.parametrize("first", [[-1, 0], [0, -2], ["u", 0], [None], [9, 0], [0, 7], [0, 0, 0]])
def test_a_group_that_no_fit_makes_is_refused(first: list[Any]) -> None:
    rng = np.random.default_rng(0)
    p, X = rng.random(800), {"a": rng.choice(["u", "v"], 800), "b": rng.integers(0, 3, 800)}
    document = json.loads(GroupWise(PlattScaling()).fit(p, rng.random(800) < p, X).to_json())
    Recalibrator.from_json(json.dumps(document))
    document["state"]["keys_"][1] = first
    with pytest.raises(MiscalError, match="level that is not there"):
        Recalibrator.from_json(json.dumps(document))
    document["state"]["keys_"][:2] = [[0], []]
    with pytest.raises(MiscalError, match="all rows"):
        Recalibrator.from_json(json.dumps(document))


def test_what_is_said_of_groups_after_fit():
    rng = np.random.default_rng(1)
    p = rng.random(600)
    y, X = (rng.random(600) < p).astype(int), {"g": rng.choice(["a", "b", "c"], 600)}
    pooled = repr(GroupWise(PlattScaling(), columns=["g"]).fit(p, y, X))
    assert pooled.endswith("3 groups, all alike: none differs significantly from its parent")
    assert repr(GroupWise(PlattScaling(), columns=["g"], pooling=False).fit(p, y, X)).endswith(": 3 groups")
