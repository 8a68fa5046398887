"""The recipe that trains a model further on the newest rows (Model-2 of paper 003) prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "update.md"


def test_the_recipe_runs_and_prints_the_table_of_the_page(capsys):
    pytest.importorskip("torch", reason="the neural extra is not installed")
    text = PAGE.read_text(encoding="utf-8")
    names: dict = {}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), PAGE.name, "exec"), names)
    shown, printed = re.search(r"```\n( +log loss.*?)```", text, re.DOTALL)[1], capsys.readouterr().out
    assert numberless(printed) == numberless(shown)
    np.testing.assert_allclose(numbers_of(printed), numbers_of(shown), atol=0.003)
    # Model-2 is another model: it has learned from rows that Model-1 has not seen, which is unchanged.
    model_1, model_2 = names["model_1"], names["model_2"]
    assert not np.array_equal(model_1.coef_, model_2.coef_)
    assert model_2.t_ - model_1.t_ == names["two"] - names["one"]


def numberless(table: str) -> list[str]:
    """The words of a table."""
    return re.sub(r"\d\.\d+", "", table).split()


def numbers_of(table: str) -> list[float]:
    """The numbers of a table."""
    return [float(number) for number in re.findall(r"\d\.\d+", table)]


def test_the_network_of_the_field_page_prints_what_the_page_shows(capsys):
    pytest.importorskip("torch", reason="the neural extra is not installed")
    text = (PAGE.parents[1] / "papers" / "field.md").read_text(encoding="utf-8")
    example, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL).groups()
    exec(compile(example, "field.md", "exec"), {})
    assert capsys.readouterr().out == shown
