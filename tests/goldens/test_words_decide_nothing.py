"""No answer depends on a sentence: with every template replaced by nonsense, all frozen answers stay as they are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module

import pytest

from miscal import codes, words
from miscal.report.html import markup
from tests.goldens.cases import GROUPS, compute
from tests.goldens.test_goldens import SHOWN, differences, frozen_group

ALL_SMOOTH_DRAWS = True  # as the frozen answers have
NONSENSE = "xyzzy"
# Of metrics and recalibrators there are no sentences: `test_goldens` compares those.
NAMES = [(group, name) for group in ("audits", "results") for name in GROUPS[group]]
NAMES += [("recalibrators", name) for name in GROUPS["recalibrators"] if name.startswith("choose")]


def nonsense(value: object) -> object:
    """The same structure with every text replaced; keys stay."""
    if isinstance(value, str):
        return NONSENSE
    if isinstance(value, dict):
        return {key: nonsense(item) for key, item in value.items()}
    return [nonsense(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module", autouse=True)
def every_template_is_nonsense() -> Iterator[None]:
    """Replace the words of all codes and the texts of the report."""
    templates = dict(words.load_templates())
    prose = markup.prose
    with pytest.MonkeyPatch.context() as patch:
        for key in templates:
            patch.setitem(words.TEMPLATES, key, NONSENSE)
        patch.setattr(markup, "prose", lambda section: nonsense(prose(section)))
        yield
    assert templates == words.TEMPLATES


@pytest.mark.parametrize(("group", "name"), NAMES)
def test_the_answer_stays(group: str, name: str) -> None:
    lines = differences(name, frozen_group(group)[name], compute(GROUPS[group][name]))
    assert not lines, "\n".join(lines[:SHOWN])


def enums() -> list[type[Enum]]:
    """Every enum of the library's codes."""
    modules = [import_module(f"miscal.codes.{subject}") for subject in words.SUBJECTS]
    found = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    return sorted((kind for kind in found if issubclass(kind, Enum) and len(kind)), key=lambda kind: kind.__name__)


def test_there_are_codes_and_templates() -> None:
    assert codes.__doc__
    assert len(words.load_templates()) >= 50
    assert len(enums()) >= 8


@pytest.mark.parametrize("kind", [kind for kind in enums() if (kind, next(iter(kind)).value) in words.load_templates()])
def test_every_member_of_an_enum_with_words_has_its_own(kind: type[Enum]) -> None:
    assert [member for member in kind if (kind, member.value) not in words.TEMPLATES] == []
