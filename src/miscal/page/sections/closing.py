"""The end of the page: what was clean, what was too small, how it was done, and what the words mean."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from miscal.page import words
from miscal.page.assets import asset
from miscal.page.markup import Safe, clean, name, tag
from miscal.page.reading import Document, items, mapping
from miscal.page.sections.tables import Column, sheet

_ASSUMED = (
    "Every p-value assumes that the model was not trained on these rows. Predictions are compared with outcomes "
    "drawn from the predictions themselves: whatever such draws show is noise."
)


def clean_section(document: Document) -> Safe:
    """What was tested and found in order."""
    entries = [_entry(item) for item in items(document.get("clean"))]
    if not entries:
        return Safe("")
    columns = [
        Column("Where", [e.get("where", e.get("name", "")) for e in entries], kind="name"),
        Column("Average error", [e.get("value") for e in entries], words.percent),
        Column("Noise alone", [e.get("noise_floor") for e in entries], words.percent),
        Column("p-value", [e.get("p_value") for e in entries], least=[e.get("p_least") for e in entries]),
        Column("Smallest gap it could have seen", [e.get("detectable") for e in entries], words.percent),
        Column("Note", [e.get("note") or "" for e in entries], kind="words"),
    ]
    return tag(
        "section",
        tag("h2", "Tested and clean"),
        tag("p", "No gap beyond noise was found here.", class_="lead"),
        sheet("Tested and clean", _known(columns), fold=6),
        id="clean",
    )


def too_small_section(document: Document) -> Safe:
    """What could not be judged."""
    entries = [_entry(item) for item in items(document.get("too_small"))]
    if not entries:
        return Safe("")
    columns = [
        Column("Where", [e.get("where", e.get("name", "")) for e in entries], kind="name"),
        Column("Rows", [e.get("rows") for e in entries], words.count),
        Column("Why", [e.get("reason") or "" for e in entries], kind="words"),
    ]
    listed = tag(
        "details",
        tag("summary", f"Show {words.plural(len(entries), 'place')}"),
        sheet("Too small to judge", _known(columns), search="Search places"),
    )
    lead = "Set aside, or too few rows or events for any test. They are neither right nor wrong: nobody can tell."
    return tag("section", tag("h2", "Too small to judge"), tag("p", lead, class_="lead"), listed, id="too-small")


def _entry(item: object) -> Mapping[str, Any]:
    return item if isinstance(item, Mapping) else {"where": str(item)}


def _known(columns: list[Column]) -> list[Column]:
    """Columns that hold anything."""
    return [c for c in columns if any(value not in (None, "") for value in c.values)]


def method(document: Document) -> Safe:
    """How it was done: data, settings, methods, versions."""
    data, settings = mapping(document.get("data")), mapping(document.get("settings"))
    facts = {"miscal": document.get("version"), "schema": document.get("schema"), **_prefixed("data", data), **settings}
    facts |= _prefixed("version of", mapping(document.get("versions")))
    listed = [tag("div", tag("dt", name(key, 60)), tag("dd", name(_plain(value), 300))) for key, value in facts.items()]
    used = _methods(document)
    return tag(
        "section",
        tag("h2", "How it was done"),
        tag("p", _ASSUMED, class_="lead"),
        tag("details", tag("summary", "Data, settings, versions"), tag("dl", listed, class_="facts-list")),
        tag("details", tag("summary", "Methods"), tag("dl", used, class_="facts-list")) if used else None,
        id="method",
    )


def _prefixed(word: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{word} {key}": value for key, value in values.items()}


def _plain(value: object) -> str:
    if value is None:
        return words.NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(item) for item in value) or words.NOTHING
    return clean(value)


def _methods(document: Document) -> list[Safe]:
    """The method of each kind of result, once."""
    seen: dict[str, None] = {}
    for kind, results in mapping(document.get("sections")).items():
        for result in map(mapping, items(results)):
            if result.get("method"):
                seen[f"{kind}\n{_plain(result['method'])}"] = None
    pairs = [entry.split("\n", 1) for entry in seen][:40]
    return [tag("div", tag("dt", name(kind, 40)), tag("dd", name(text, 400))) for kind, text in pairs]


def definitions() -> Safe:
    """The words of the page, with what each trade calls them."""
    words_ = tomllib.loads(asset("glossary.toml"))["word"]
    listed = [
        tag("div", tag("dt", word["name"]), tag("dd", word["meaning"]), tag("dd", word["trades"], class_="quiet"))
        for word in words_
    ]
    return tag("section", tag("h2", "What the words mean"), tag("dl", listed, class_="glossary"), id="words")
