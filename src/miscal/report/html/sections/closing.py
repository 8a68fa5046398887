"""The end of the page: what changed, what was clean or too small, how it was done, and what the words mean."""

import tomllib
from collections.abc import Mapping
from typing import Any

from miscal.report import wording
from miscal.report.html.column_figures import periods as drawn
from miscal.report.html.markup import Safe, asset, name, prose, tag
from miscal.report.html.sections.blocks import (
    RATES,
    TableColumn,
    columns_of,
    figure,
    folded,
    lead,
    quiet,
    section,
    sheet,
)
from miscal.report.model import AuditReport
from miscal.report.result_tables import ResultView

MOST_SAID = 8
MOST_LISTED = 120
MOST_CHANGED = 100
_TIME, _SAID = prose("periods"), prose("closing")


def periods(document: AuditReport) -> Safe:
    """The section of periods; empty where no column of times was named."""
    return section("periods", "Along time", [_period(result) for result in document.of("period")])


def _period(result: ResultView) -> Safe:
    changed, left = result.changed(MOST_SAID)
    steps = [tag("li", step) for step in changed]
    every, many, columns = result.every, result.table.rows, period_columns(result, MOST_LISTED)
    rates, gaps = drawn(result)
    caption = f"Every {every}, and what changed since the one before"
    summary = f"All {every}s" if many <= MOST_LISTED else f"The last {MOST_LISTED} of {many:,} {every}s"
    smaller = f"{wording.plural(left, 'smaller step is', 'smaller steps are')} in the table."
    return tag(
        "div",
        lead(result.said()),
        tag("ul", steps, class_="told", data_fold=4) if steps else None,
        quiet(smaller) if left else None,
        tag("p", name(result.note, 600), class_="note") if result.note else None,
        tag("div", figure(rates, _TIME["rates"]), figure(gaps, _TIME["gaps"]), class_="pair"),
        tag("p", _TIME["compared"].format(every=every), class_="note"),
        folded(summary, sheet(caption, columns, search=f"Search {every}s")),
    )


def period_columns(result: ResultView, most: int) -> list[TableColumn]:
    """What is said of the last periods, at most so many, on the page and in markdown."""
    every, many = result.every, result.table.rows
    last = result.table.take(range(max(many - most, 0), many))
    return [
        TableColumn("Week from" if every == "week" else every.capitalize(), last["label"], "name"),
        *columns_of(last, *RATES, "gap_low", "gap_high", "noise", "p_adjusted"),
        *columns_of(last, "change", "change_p_adjusted", "verdict"),
    ]


def comparison(document: AuditReport) -> Safe:
    """The section on an earlier audit: what got better, what got worse."""
    compared = document.comparison
    if compared is None:
        return Safe("")
    how = "the same rows, so that chance is shared" if compared.paired else "different rows"
    said = f": {len(compared.better):,} better and {len(compared.worse):,} worse beyond noise."
    if not compared.cells:
        said = ", by findings alone: its JSON has no sums of cells to compare."
    changed = [i for i, verdict in enumerate(compared.table["verdict"]) if verdict in ("better", "worse")]
    table = compared.table.take(changed[:MOST_CHANGED])
    columns = columns_of(table, "where", "verdict", "gap_before", "gap_after", "p_adjusted")
    columns.insert(4, TableColumn("Change of its size", table["change"], wording.points))
    return section(
        "comparison",
        "Since the baseline",
        lead(f"Against the baseline, judged on {how}{said}"),
        lead(wording.not_compared(compared.left_out)) if compared.left_out else None,
        sheet("Places that changed", columns, search="Search places"),
        _list("New findings", compared.new),
        _list("Findings that are gone", compared.gone),
    )


def _list(title: str, places: list[str]) -> Safe:
    listed = [tag("li", name(place, 140)) for place in places[:MOST_CHANGED]]
    return folded(f"{title} ({len(places):,})", tag("ul", listed) if listed else None)


def clean_section(document: AuditReport) -> Safe:
    """What was tested and found in order."""
    places = document.clean
    columns = columns_of(places, "where", "value", "noise_floor", "detectable", "note")
    columns.insert(3, TableColumn("p-value", places["p_value"], least=places["p_least"]))
    listed = sheet("Tested and clean", _known(columns))
    return section("clean", "Tested and clean", listed, opening=_SAID["clean"])


def too_small_section(document: AuditReport) -> Safe:
    """What could not be judged."""
    columns = _known(columns_of(document.too_small, "where", "rows", "reason"))
    listed = sheet("Too small to judge", columns, search="Search places")
    shown = folded(f"Show {wording.plural(document.too_small.rows, 'place')}", listed)
    return section("too-small", "Too small to judge", shown, opening=_SAID["small"])


def left_out_section(document: AuditReport) -> Safe:
    """What was not looked at, with the reason and how to ask for it."""
    entries = document.left_out
    columns = columns_of(entries, "what", "count", "reason", "ask")
    names = [_list(f"{entry.what.capitalize()}: {entry.reason}", entry.where) for entry in entries]
    return section(
        "left-out", "Not looked at", sheet("Not looked at", columns), names, opening=_SAID["unseen"]
    )


def _known(columns: list[TableColumn]) -> list[TableColumn]:
    """Columns that hold anything."""
    return [column for column in columns if any(value not in ("", None) for value in column.values)]


def method(document: AuditReport) -> Safe:
    """How it was done: data, settings, methods, versions."""
    facts = {"miscal": document.version, "schema": document.schema}
    said = ("probability", "prediction" if document.response else "probability")
    facts |= {f"data {key.replace(*said)}": value for key, value in document.data.items()}
    facts |= {**document.settings, **{f"version of {key}": value for key, value in document.versions.items()}}
    used = dict.fromkeys(
        (kind, one.method) for kind, every in document.sections.items() for one in every if one.method
    )
    flipped = document.response or any(one.settings.get("null") == "residual" for one in document.of("score"))
    noise = "clusters" if document.data.get("cluster") else "residual" if flipped else "drawn"
    return section(
        "method",
        "How it was done",
        lead(f"{_SAID['assumed']} {_SAID[noise]}"),
        folded("Data, settings, versions", _facts([(key, _plain(value)) for key, value in facts.items()])),
        folded("Methods", _facts(list(used)[:40])) if used else None,
    )


def _facts(facts: list[tuple[str, str]]) -> Safe:
    listed = [tag("div", tag("dt", name(key, 60)), tag("dd", name(value, 400))) for key, value in facts]
    return tag("dl", listed, class_="facts-list")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(item) for item in value) or wording.NOTHING
    return wording.NOTHING if value is None else str(value)


def definitions(document: AuditReport) -> Safe:
    """The words of the page, with what each trade calls them; `means`: as they are said where there are no events."""
    shown = "means" if document.response else "events"
    given = tomllib.loads(asset("glossary.toml"))["word"]
    every = [{**word, **word.get(shown, {})} for word in given if word.get("only", shown) == shown]
    listed = [
        tag(
            "div",
            tag("dt", said["name"]),
            tag("dd", said["meaning"]),
            tag("dd", said["trades"], class_="quiet"),
        )
        for said in every
    ]
    return section("words", "What the words mean", tag("dl", listed, class_="glossary"))
