"""The audit as markdown: for a pull request, a ticket or a chat, where a page cannot go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from miscal.auditing.measures import measure
from miscal.page import words
from miscal.page.markup import clean, ellipsis
from miscal.page.period_words import KIND, changed_words, periods_said, signed_points
from miscal.page.reading import Document, checked, items, mapping, padded
from miscal.page.sections.columns import entries
from miscal.page.sections.findings import sentence, strength
from miscal.page.sections.score import NUMBERS
from miscal.page.verdict import verdict
from miscal.page.words import finite

#: Findings and columns written out; the rest is counted.
MOST = 20
MOST_PERIODS = 60


def to_markdown(document: object) -> str:
    """Render an audit's dictionary as markdown.

    Names that the user chose are escaped, so that none of them becomes a link, a tag or a table's border.

    Examples
    --------
    >>> print(to_markdown({"schema": "miscal.audit/1"}).splitlines()[0])
    # There is no number to judge the predictions by.
    """
    audit = checked(document)
    said = verdict(audit)
    blocks = [
        f"# {said.sentence}",
        "\n".join(said.support),
        _numbers(audit),
        _findings(audit),
        _periods(audit),
        _columns(audit),
        _rest(audit),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def quoted(text: object, limit: int = 100) -> str:
    r"""Any text as markdown that shows it.

    Examples
    --------
    >>> quoted("a|b [x](y) <i>")
    'a\\|b \\[x\\]\\(y\\) \\<i\\>'
    """
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~$@&^=:-])", r"\\\1", ellipsis(clean(text), limit))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _numbers(audit: Document) -> str:
    score = mapping(audit.get("score"))
    known = [(label, write, measure(score, key)) for key, label, write, _ in NUMBERS]
    rows = [
        [
            label,
            write(number.value),
            write(number.noise_floor),
            words.interval(number.low, number.high, write) or words.NOTHING,
            words.p_cell(number.p_value, number.least),
        ]
        for label, write, number in known
        if number.known
    ]
    return _table(["Number", "Value", "Noise alone", "95% interval", "p-value"], rows) if rows else ""


def _findings(audit: Document) -> str:
    real = [f for f in map(mapping, items(audit.get("findings"))) if f.get("real", True)]
    if not real:
        return ""
    listed = [_finding(number, finding) for number, finding in enumerate(real[:MOST], 1)]
    more = [f"\n{words.plural(len(real) - MOST, 'further finding')} in the JSON."] if len(real) > MOST else []
    return "\n".join(["## Where it is wrong", "", *listed, *more])


def _finding(number: int, finding: Mapping[str, Any]) -> str:
    code = quoted(finding.get("code", ""), 20)
    return f"{number}. **{quoted(finding.get('where', ''))}** ({code}): {sentence(finding)} {strength(finding)}"


def spoken(text: object, limit: int = 600) -> str:
    r"""A sentence of ours around a user's names: only what markdown would act on inside a line is escaped.

    Examples
    --------
    >>> spoken("From +8.3 to [x](y) *now* <i>")
    'From +8.3 to \\[x\\](y) \\*now\\* \\<i\\>'
    """
    return re.sub(r"([\\`*_\[\]<>|~$])", r"\\\1", ellipsis(clean(text), limit))


def _periods(audit: Document) -> str:
    """Every week or month, after the steps that changed."""
    blocks = []
    for result in map(mapping, items(mapping(audit.get("sections")).get(KIND))):
        rows = _period_rows(mapping(result.get("table")))
        left = len(rows) - MOST_PERIODS
        headings = [
            "Period",
            "Rows",
            "Predicted, happened",
            "Gap in points (interval; noise alone)",
            "Adjusted p",
            "Became",
        ]
        parts = [
            f"## {quoted(result.get('name', 'Along time'))}",
            periods_said(result),
            "\n".join(f"- {spoken(sentence)}" for sentence in changed_words(result, MOST)),
            spoken(mapping(result.get("extra")).get("note") or ""),
            _table(headings, rows[:MOST_PERIODS]),
            f"{words.plural(left, 'further period')} in the JSON." if left > 0 else "",
        ]
        blocks.append("\n\n".join(part for part in parts if part))
    return "\n\n".join(blocks)


def _period_rows(table: Mapping[str, Any]) -> list[list[str]]:
    labels = items(table.get("label"))

    names = ("rows", "predicted", "observed", "gap", "gap_low", "gap_high", "noise", "p_adjusted", "verdict")
    made = []
    for label, many, predicted, observed, gap, low, high, noise, p, became in zip(
        labels, *(padded(table, name, len(labels)) for name in names), strict=True
    ):
        shown = signed_points([finite(value) for value in (gap, low, high, noise)])
        known = finite(gap) == finite(gap)
        made.append([
            quoted(label, 20), words.count(many), f"{words.percent(predicted)}, {words.percent(observed)}",
            f"{shown[0]} ({shown[1]} to {shown[2]}; ±{shown[3].lstrip('+')})" if known else words.NOTHING,
            words.p_cell(p), quoted(became or words.NOTHING, 20),
        ])  # fmt: skip
    return made


def _columns(audit: Document) -> str:
    every = entries(audit)
    rows = [
        [
            quoted(entry.column, 60),
            words.percent(entry.result.get("value")),
            words.percent(entry.result.get("noise_floor")),
            words.p_cell(entry.result.get("p_value"), entry.least),
            quoted(entry.place, 60),
            words.points(entry.gap),
        ]
        for entry in every[:MOST]
    ]
    if not rows:
        return ""
    headings = ["Column", "Average error", "Noise alone", "p-value", "Worst place", "Gap there"]
    more = f"\n\n{words.plural(len(every) - MOST, 'further column')} in the JSON." if len(every) > MOST else ""
    return f"## Column by column\n\n{_table(headings, rows)}{more}"


def _rest(audit: Document) -> str:
    clean_names = [
        quoted(mapping(item).get("where", item if isinstance(item, str) else ""), 60)
        for item in items(audit.get("clean"))
    ]
    small = len(items(audit.get("too_small")))
    lines = (
        [f"Tested and clean: {', '.join(clean_names[:MOST])}{' and more' if len(clean_names) > MOST else ''}."]
        if clean_names
        else []
    )
    lines += [f"Too small to judge: {words.plural(small, 'place')}."] if small else []
    return "\n\n".join(lines)
