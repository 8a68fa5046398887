"""The audit as markdown: for a pull request, a ticket or a chat, where a page cannot go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from miscal.report import words
from miscal.report.blocks.columns import entries
from miscal.report.blocks.findings import sentence, strength
from miscal.report.blocks.score import NUMBERS
from miscal.report.markup import clean, ellipsis
from miscal.report.measures import measure
from miscal.report.period_words import KIND, changed_words, periods_said
from miscal.report.reading import Document, checked, items, mapping
from miscal.report.verdict import verdict

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
            words.p_cell(number.p_value),
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


def _periods(audit: Document) -> str:
    """Every week or month, after the steps that changed."""
    blocks = []
    for result in map(mapping, items(mapping(audit.get("sections")).get(KIND))):
        table = mapping(result.get("table"))
        names = ("label", "rows", "predicted", "observed", "gap", "p_adjusted", "verdict")
        rows = [
            [quoted(label, 20), words.count(many), words.percent(predicted), words.percent(observed),
             words.points(gap), words.p_cell(p), quoted(verdict or words.NOTHING, 20)]
            for label, many, predicted, observed, gap, p, verdict in zip(
                *(items(table.get(name)) for name in names), strict=False
            )
        ]  # fmt: skip
        said = [f"- {sentence}" for sentence in changed_words(result, MOST)]
        more = (
            f"\n\n{words.plural(len(rows) - MOST_PERIODS, 'further period')} in the JSON."
            if len(rows) > MOST_PERIODS
            else ""
        )
        heading = f"## {quoted(result.get('name', 'Along time'))}\n\n{periods_said(result)}"
        note = mapping(result.get("extra")).get("note")
        headings = ["Period", "Rows", "Predicted", "Happened", "Gap", "Adjusted p", "Became"]
        parts = [
            heading,
            "\n".join(said),
            quoted(note, 600) if note else "",
            _table(headings, rows[:MOST_PERIODS]) + more,
        ]
        blocks.append("\n\n".join(part for part in parts if part))
    return "\n\n".join(blocks)


def _columns(audit: Document) -> str:
    every = entries(audit)
    rows = [
        [
            quoted(entry.column, 60),
            words.percent(entry.result.get("value")),
            words.percent(entry.result.get("noise_floor")),
            words.p_cell(entry.result.get("p_value")),
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
