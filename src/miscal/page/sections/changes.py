"""What changed against an earlier audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from miscal.page import words
from miscal.page.markup import Safe, name, tag
from miscal.page.reading import Document, items, mapping
from miscal.page.sections.tables import Column, sheet

MOST = 100


def comparison(document: Document) -> Safe:
    """The section on an earlier audit: what got better, what got worse."""
    compared = mapping(document.get("comparison"))
    if not compared:
        return Safe("")
    table = mapping(compared.get("table"))
    changed = [i for i, verdict in enumerate(items(table.get("verdict"))) if verdict in ("better", "worse")]
    how = "the same rows, so that chance is shared" if compared.get("paired") else "different rows"
    counts = [f"{len(items(compared.get(word))):,} {word}" for word in ("better", "worse")]
    lead = f"Against the baseline, judged on {how}: {' and '.join(counts)} beyond noise."
    if compared.get("cells") is False:
        lead = f"Against the baseline, judged on {how}, by findings alone: its JSON has no sums of cells to compare."
    return tag(
        "section",
        tag("h2", "Since the baseline"),
        tag("p", lead, class_="lead"),
        _changed(table, changed) if changed else None,
        _list("New findings", items(compared.get("new"))),
        _list("Findings that are gone", items(compared.get("gone"))),
        id="comparison",
    )


def _changed(table: Mapping[str, Any], chosen: list[int]) -> Safe:
    def values(key: str) -> list[Any]:
        column = items(table.get(key))
        return [column[i] for i in chosen[:MOST]]

    columns = [
        Column("Where", values("where"), kind="name"),
        Column("Became", values("verdict"), kind="words"),
        Column("Gap before", values("gap_before"), words.points),
        Column("Gap after", values("gap_after"), words.points),
        Column("Adjusted p", values("p_adjusted"), words.p_cell),
    ]
    return sheet("Places that changed", columns, search="Search places")


def _list(title: str, places: list[Any]) -> Safe | None:
    if not places:
        return None
    listed = [tag("li", name(place, 140)) for place in places[:MOST]]
    return tag("details", tag("summary", f"{title} ({len(places):,})"), tag("ul", listed))
