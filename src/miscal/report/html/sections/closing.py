"""The last sections: changes, segments without a significant gap or too small, method, and glossary."""

import tomllib
from collections.abc import Mapping
from typing import Any

from miscal.report import wording
from miscal.report.html.column_figures import periods as drawn
from miscal.report.html.markup import Safe, asset, name, phrase, prose, tag
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

MOST_STEPS = 8
MOST_LISTED = 120
MOST_CHANGED = 100
_TIME, _TEXT = prose("periods"), prose("closing")


def periods(document: AuditReport) -> Safe:
    """The section of periods; empty where no column of times was named."""
    return section("periods", "Over time", [_period(result) for result in document.of("period")])


def _period(result: ResultView) -> Safe:
    changed, n_smaller = result.changed(MOST_STEPS)
    steps = [tag("li", step) for step in changed]
    period, n_periods, columns = result.every, result.table.rows, period_columns(result, MOST_LISTED)
    rates, gaps = drawn(result)
    caption = f"Every {period}, and its change from the one before"
    summary = f"All {period}s"
    if n_periods > MOST_LISTED:
        summary = f"The last {MOST_LISTED} of {n_periods:,} {period}s"
    smaller = f"{wording.plural(n_smaller, 'smaller step is', 'smaller steps are')} in the table."
    return tag(
        "div",
        lead(result.period_summary()),
        tag("ul", steps, class_="told", data_fold=4) if steps else None,
        quiet(smaller) if n_smaller else None,
        tag("p", name(result.note, 600), class_="note") if result.note else None,
        tag("div", figure(rates, _TIME["rates"]), figure(gaps, _TIME["gaps"]), class_="pair"),
        tag("p", _TIME["compared"].format(every=period), class_="note"),
        folded(summary, sheet(caption, columns, search=f"Search {period}s")),
    )


def period_columns(result: ResultView, most: int) -> list[TableColumn]:
    """The table of the last `most` periods, as report and Markdown show it."""
    period, n_periods = result.every, result.table.rows
    last = result.table.take(range(max(n_periods - most, 0), n_periods))
    return [
        TableColumn("Week from" if period == "week" else period.capitalize(), last["label"], "name"),
        *columns_of(last, *RATES, "gap_low", "gap_high", "noise", "p_adjusted"),
        *columns_of(last, "change", "change_p_adjusted", "verdict"),
    ]


def comparison(document: AuditReport) -> Safe:
    """The comparison with an earlier audit: what got better and what got worse."""
    compared = document.comparison
    if compared is None:
        return Safe("")
    counts = {"better": f"{len(compared.better):,}", "worse": f"{len(compared.worse):,}"}
    rows = phrase("closing", "paired" if compared.paired else "unpaired")
    opening = phrase("closing", "compared" if compared.cells else "compared_findings", rows=rows, **counts)
    changed = [i for i, verdict in enumerate(compared.table["verdict"]) if verdict in ("better", "worse")]
    table = compared.table.take(changed[:MOST_CHANGED])
    columns = columns_of(table, "where", "verdict", "gap_before", "gap_after", "p_adjusted")
    columns.insert(4, TableColumn("Change of |gap|", table["change"], wording.points))
    return section(
        "comparison",
        "Since the baseline",
        lead(opening),
        lead(wording.not_compared(compared.left_out)) if compared.left_out else None,
        sheet("Segments that changed", columns, search="Search segments"),
        _list("New findings", compared.new),
        _list("Resolved findings", compared.gone),
    )


def _list(title: str, segments: list[str]) -> Safe:
    listed = [tag("li", name(segment, 140)) for segment in segments[:MOST_CHANGED]]
    return folded(f"{title} ({len(segments):,})", tag("ul", listed) if listed else None)


def clean_section(document: AuditReport) -> Safe:
    """Columns that were tested without a significant gap, with the minimum detectable gap."""
    clean = document.clean
    columns = columns_of(clean, "where", "value", "noise_floor", "detectable", "note")
    columns.insert(3, TableColumn("p-value", clean["p_value"], least=clean["p_least"]))
    title = prose("links")["clean"]
    listed = sheet(title, _known(columns))
    return section("clean", title, listed, opening=_TEXT["clean"])


def too_small_section(document: AuditReport) -> Safe:
    """Segments that were excluded or had too few rows or events to test."""
    columns = _known(columns_of(document.too_small, "where", "rows", "reason"))
    listed = sheet("Excluded or too small to test", columns, search="Search segments")
    shown = folded(f"Show {wording.plural(document.too_small.rows, 'segment')}", listed)
    return section("too-small", "Excluded or too small to test", shown, opening=_TEXT["small"])


def left_out_section(document: AuditReport) -> Safe:
    """What was not tested, with the reason and how to request it."""
    entries = document.left_out
    columns = columns_of(entries, "what", "count", "reason", "ask")
    names = [_list(f"{entry.what.capitalize()}: {entry.reason}", entry.where) for entry in entries]
    return section("left-out", "Not tested", sheet("Not tested", columns), names, opening=_TEXT["unseen"])


def _known(columns: list[TableColumn]) -> list[TableColumn]:
    """Columns that hold anything."""
    return [column for column in columns if any(value not in ("", None) for value in column.values)]


def method(document: AuditReport) -> Safe:
    """Method: assumptions, data, settings, methods, versions."""
    facts = {"miscal": document.version, "schema": document.schema}
    role = "prediction" if document.response else "probability"
    facts |= {f"data {key.replace('probability', role)}": value for key, value in document.data.items()}
    facts |= {**document.settings, **{f"version of {key}": value for key, value in document.versions.items()}}
    used = dict.fromkeys(
        (kind, result.method)
        for kind, results in document.sections.items()
        for result in results
        if result.method
    )
    flipped = document.response or any(
        result.settings.get("null") == "residual" for result in document.of("score")
    )
    null = "clusters" if document.data.get("cluster") else "residual" if flipped else "drawn"
    return section(
        "method",
        "Method",
        lead(f"{_TEXT['assumed']} {_TEXT[null]}"),
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
    """The glossary: each term, and its name in other fields; entries under `means` replace those about events."""
    shown = "means" if document.response else "events"
    words = tomllib.loads(asset("glossary.toml"))["word"]
    entries = [{**word, **word.get(shown, {})} for word in words if word.get("only", shown) == shown]
    listed = [
        tag(
            "div",
            tag("dt", entry["name"]),
            tag("dd", entry["meaning"]),
            tag("dd", entry["trades"], class_="quiet"),
        )
        for entry in entries
    ]
    return section("words", "Glossary", tag("dl", listed, class_="glossary"))
