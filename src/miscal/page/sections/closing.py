"""The end of the page: what was clean, what was too small, how it was done, and what the words mean."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from typing import Any

from miscal.page import words
from miscal.page.markup import Safe, asset, clean, name, tag
from miscal.page.records import Document
from miscal.page.sections.blocks import Column, folded, lead, section, sheet

MOST_METHODS = 40
_ASSUMED = (
    "Every p-value assumes that the model was not trained on these rows. Predictions are compared with outcomes "
    "drawn from the predictions themselves: whatever such draws show is noise."
)
_SMALL = "Set aside, or too few rows or events for any test. They are neither right nor wrong: nobody can tell."


def clean_section(document: Document) -> Safe:
    """What was tested and found in order."""
    places = document.clean
    if not places:
        return Safe("")
    columns = [
        Column("Where", [place.where for place in places], kind="name"),
        Column("Average error", [place.value for place in places], words.percent),
        Column("Noise alone", [place.noise_floor for place in places], words.percent),
        Column("p-value", [place.p_value for place in places], least=[place.p_least for place in places]),
        Column("Smallest gap it could have seen", [place.detectable for place in places], words.percent),
        Column("Note", [place.note for place in places], kind="words"),
    ]
    listed = sheet("Tested and clean", _known(columns), fold=6)
    return section("clean", "Tested and clean", lead("No gap beyond noise was found here."), listed)


def too_small_section(document: Document) -> Safe:
    """What could not be judged."""
    places = document.too_small
    if not places:
        return Safe("")
    columns = [
        Column("Where", [place.where for place in places], kind="name"),
        Column("Rows", [place.rows for place in places], words.count),
        Column("Why", [place.reason for place in places], kind="words"),
    ]
    listed = sheet("Too small to judge", _known(columns), search="Search places")
    shown = folded(f"Show {words.plural(len(places), 'place')}", listed)
    return section("too-small", "Too small to judge", lead(_SMALL), shown)


def _known(columns: list[Column]) -> list[Column]:
    """Columns that hold anything."""
    return [c for c in columns if any(v != "" and not (isinstance(v, float) and math.isnan(v)) for v in c.values)]


def method(document: Document) -> Safe:
    """How it was done: data, settings, methods, versions."""
    facts = {"miscal": document.version, "schema": document.schema}
    facts |= {f"data {key}": value for key, value in document.data.items()}
    facts |= {**document.settings, **{f"version of {key}": value for key, value in document.versions.items()}}
    used = dict.fromkeys(
        (kind, _plain(result.method)) for kind, results in document.sections.items() for result in results
        if result.method
    )  # fmt: skip
    return section(
        "method",
        "How it was done",
        lead(_ASSUMED),
        folded("Data, settings, versions", _facts([(key, _plain(value)) for key, value in facts.items()], 60, 300)),
        folded("Methods", _facts(list(used)[:MOST_METHODS], 40, 400)) if used else None,
    )


def _facts(facts: list[tuple[str, str]], key_limit: int, limit: int) -> Safe:
    listed = [tag("div", tag("dt", name(key, key_limit)), tag("dd", name(value, limit))) for key, value in facts]
    return tag("dl", listed, class_="facts-list")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(item) for item in value) or words.NOTHING
    return words.NOTHING if value is None else clean(value)


def definitions() -> Safe:
    """The words of the page, with what each trade calls them."""
    listed = [
        tag("div", tag("dt", word["name"]), tag("dd", word["meaning"]), tag("dd", word["trades"], class_="quiet"))
        for word in tomllib.loads(asset("glossary.toml"))["word"]
    ]
    return section("words", "What the words mean", tag("dl", listed, class_="glossary"))
