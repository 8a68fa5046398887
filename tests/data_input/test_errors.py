"""An error keeps what was expected, found and advised; a parameter is spelled as whoever set it would."""

from __future__ import annotations

import pickle

import pytest

import miscal
from miscal.data.errors import MiscalError, MixedTypes, Parameter, parameter, refusal, warn


def test_the_answers_are_attributes() -> None:
    with pytest.raises(MiscalError) as caught:
        miscal.by_score(miscal.Predictions([0, 1], [0.2, 0.4]), bins=0)
    error = caught.value
    assert (error.parameter, error.expected, error.got) == ("bins", "must be at least 1", "it is 0")
    assert str(error) == "'bins' must be at least 1; it is 0."
    column = refusal("must be whole", "column 'age'", hint="round it")
    assert (column.parameter, column.hint) == ("", "round it")


def as_option(named: Parameter) -> str:
    if named.name == "clip":
        return named.otherwise
    return f"--{named.name} {named.value}".strip()


def test_parameters_are_spelled_anew_and_nothing_else_is() -> None:
    hint = f"add {parameter('time', 'COLUMN')}, use {parameter('logit', 'True', 'miscal.read')}"
    hint += f" or {parameter('clip', '1e-6', otherwise='bring them inside')}"
    error = refusal("needs 'time'; got time=3", "'every'", hint=hint)
    assert str(error) == (
        "'every' needs 'time'; got time=3.\nHint: add time=COLUMN, use miscal.read(..., logit=True) or use clip=1e-6"
    )
    assert error.text(as_option) == (
        "--every needs 'time'; got time=3.\nHint: add --time COLUMN, use --logit True or bring them inside"
    )


def test_errors_of_errors_and_of_other_processes_keep_their_fields() -> None:
    error = refusal("must be 1", "'bins'", got="it is 2", hint=parameter("bins", "1"))
    again = error.with_text(f"file 'a.csv': {error.template}")
    assert again.text(as_option) == "file 'a.csv': --bins must be 1; it is 2.\nHint: --bins 1"
    assert again.parameter == "bins"
    for again in (MixedTypes(error), pickle.loads(pickle.dumps(error))):
        assert (again.parameter, again.got, again.hint) == ("bins", "it is 2", "bins=1")
        assert again.text(as_option) == "--bins must be 1; it is 2.\nHint: --bins 1"
        assert str(again) == str(error)


def test_warnings_are_spelled_too() -> None:
    with pytest.warns(miscal.MiscalWarning, match="leave logit=True out") as caught:
        warn(f"leave {parameter('logit', 'True')} out")
    assert caught[0].message.text(as_option) == "leave --logit True out"  # type: ignore[union-attr]
