"""The audit as markdown: for a pull request, a ticket or a chat, where a page cannot go."""

from __future__ import annotations

import re
from collections.abc import Sequence

from miscal.auditing.findings import Finding
from miscal.page import words
from miscal.page.entries import Entry
from miscal.page.markup import clean, ellipsis
from miscal.page.records import Document, Quiet, of_document
from miscal.page.sections.blocks import Column
from miscal.page.sections.closing import period_columns
from miscal.page.sections.columns import column_list, entries
from miscal.page.sections.findings import strength
from miscal.page.sections.score import HEADINGS, number_rows, verdict

#: Findings and columns written out; the rest is counted.
MOST = 20
MOST_WORST = 5  # places on a model card
MOST_PERIODS = 60


@of_document
def to_markdown(audit: Document) -> str:
    """Render an audit's dictionary as markdown.

    Names that the user chose are escaped, so that none of them becomes a link, a tag or a table's border.

    Examples
    --------
    >>> print(to_markdown({"schema": "miscal.audit/1"}).splitlines()[0])
    # There is no number to judge the predictions by.
    """
    said = verdict(audit)
    blocks = [
        f"# {spoken(said.sentence)}",
        "\n".join(map(spoken, said.support)),
        _numbers(audit),
        _findings(audit),
        "\n".join(f"- {spoken(note)}" for note in audit.notes),
        *map(_period, audit.of(words.KIND)),
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


def _table(columns: Sequence[Column]) -> str:
    rows = [
        [column.text(k) if column.kind == "number" else quoted(column.text(k), 60) for column in columns]
        for k in range(len(columns[0].values))
    ]
    return _lines([column.heading for column in columns], rows)


def _lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _numbers(audit: Document) -> str:
    rows = [[label, *cells] for label, _, cells in number_rows(audit)]
    return _lines(HEADINGS, rows) if rows else ""


def _findings(audit: Document) -> str:
    heads = audit.findings
    if not heads:
        return ""
    more = [f"\n{words.plural(len(heads) - MOST, 'further finding')} in the JSON."] if len(heads) > MOST else []
    return "\n".join(["## Where it is wrong", "", *map(_finding, range(1, MOST + 1), heads), *more])


def _finding(number: int, finding: Finding) -> str:
    place = f"**{quoted(finding.where)}** ({quoted(finding.code, 20)})"
    others = f" It explains {words.plural(finding.explains, 'other place')}." if finding.explained else ""
    return f"{number}. {place}: {finding.sentence} {strength(finding)}{others}"


def spoken(text: object, limit: int = 600) -> str:
    r"""A sentence of ours around a user's names: only what markdown would act on inside a line is escaped.

    Examples
    --------
    >>> spoken("From +8.3 to [x](y) *now* <i>")
    'From +8.3 to \\[x\\]\\(y) \\*now\\* \\<i\\>'
    """
    return re.sub(r"([\\`*_\[\]<>|~$]|(?<=\])\()", r"\\\1", ellipsis(clean(text), limit))


def _period(result: Entry) -> str:
    """Every week or month, after the steps that changed."""
    left = result.table.rows - MOST_PERIODS
    parts = [
        f"## {quoted(result.name or 'Along time')}",
        words.periods_said(result),
        "\n".join(f"- {spoken(sentence)}" for sentence in words.changed_words(result, MOST)),
        spoken(result.note),
        _table(period_columns(result, MOST_PERIODS)),
        f"{words.plural(left, 'earlier period')} in the JSON." if left > 0 else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _columns(audit: Document) -> str:
    every = entries(audit)
    if not every:
        return ""
    columns = [column for column in column_list(every[:MOST]) if column.heading != "Looked at"]
    more = f"\n\n{words.plural(len(every) - MOST, 'further column')} in the JSON." if len(every) > MOST else ""
    return f"## Column by column\n\n{_table(columns)}{more}"


def _rest(audit: Document) -> str:
    names = ", ".join(quoted(place.where, 60) for place in audit.clean[:MOST])
    small = len(audit.too_small)
    lines = [f"Tested and clean: {names}{' and more' if len(audit.clean) > MOST else ''}."] if names else []
    lines += [f"Too small to judge: {words.plural(small, 'place')}."] if small else []
    lines += ["\n".join(f"- Not looked at: {spoken(entry.words)}" for entry in audit.unseen)]
    return "\n\n".join(line for line in lines if line)


@of_document
def to_model_card(audit: Document) -> str:
    """A section for a model card: the verdict, its numbers, the worst places, what was clean, how it was measured.

    Examples
    --------
    >>> to_model_card({"schema": "miscal.audit/1"}).splitlines()[0]
    '## Calibration'
    """
    said = verdict(audit)
    blocks = [
        "## Calibration",
        f"**{spoken(said.sentence)}** {' '.join(map(spoken, said.support))}",
        _numbers(audit),
        "### Where it is wrong",
        _worst(audit.findings),
        "### Where nothing was found",
        _unseen(audit.clean),
        "### How it was measured",
        "\n".join(f"- {line}" for line in _measured(audit)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _worst(heads: Sequence[Finding]) -> str:
    if not heads:
        return "Nothing that was looked at is off beyond noise."
    left = len(heads) - MOST_WORST
    more = [f"\n{words.plural(left, 'further place is', 'further places are')} off beyond noise."] if left > 0 else []
    return "\n".join([*map(_finding, range(1, MOST_WORST + 1), heads), *more])


def _unseen(clean: Sequence[Quiet]) -> str:
    """Clean columns with the smallest gap that would have been seen, which is what clean means."""
    if not clean:
        return "No column was free of findings."
    rows = [[quoted(place.where, 60), words.percent(place.detectable)] for place in clean[:MOST]]
    more = f"\n\n{words.plural(len(clean) - MOST, 'further column')} likewise." if len(clean) > MOST else ""
    return _lines(["Column", "Smallest gap that would have been seen"], rows) + more


def _measured(audit: Document) -> list[str]:
    named = ", ".join(quoted(column, 60) for column in audit.probabilities)
    unit = f", a unit of exposure {quoted(audit.data['exposure'], 60)}" if audit.data.get("exposure") else ""
    facts = [
        f"{words.count(audit.rows)} rows" + (f" of {quoted(audit.source, 60)}" if audit.source else ""),
        f"outcome {quoted(audit.outcome, 60)}, {'prediction' if audit.response else 'probability'} {named}{unit}"
        if audit.outcome and named
        else "",
        f"beyond noise: adjusted p at most {audit.level:g}, over all places that were looked at",
        *(f"not looked at: {spoken(entry.words)}" for entry in audit.unseen),
        "every p-value assumes that the model was not trained on these rows",
        f"fingerprint of the data {quoted(audit.data['fingerprint'], 60)}" if audit.data.get("fingerprint") else "",
        f"miscal {quoted(audit.version, 20)}",
    ]
    return [fact for fact in facts if fact]
