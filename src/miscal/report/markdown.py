"""The audit as Markdown, for pull requests, tickets, chats and model cards."""

import re
from collections.abc import Iterable, Sequence

from miscal.report import wording
from miscal.report.codec import of_document
from miscal.report.findings import Finding
from miscal.report.html.markup import ellipsis, phrase
from miscal.report.html.sections.blocks import TableColumn, columns_of
from miscal.report.html.sections.closing import period_columns
from miscal.report.html.sections.columns import column_list, entries
from miscal.report.html.sections.findings import strength
from miscal.report.html.sections.score import number_columns, verdict
from miscal.report.model import AuditReport
from miscal.report.result_tables import ResultView

#: Findings and columns written out; the rest is counted.
MOST = 20
MOST_ON_CARD = 5  # findings on a model card
MOST_PERIODS = 60


@of_document
def to_markdown(audit: AuditReport) -> str:
    """Render an audit as Markdown.

    Names that the user chose are escaped, so that none of them becomes a link, a tag or a table's border.

    Examples
    --------
    >>> print(to_markdown({"schema": "miscal.audit/1"}).splitlines()[0])
    # There is no number to test the predictions by.
    """
    summary, heads, results = verdict(audit), audit.findings, entries(audit)
    columns = column_list(results[:MOST])
    del columns[1]  # whether by range or by category
    names = [quoted(segment, 60) for segment in audit.clean["where"]]
    small = audit.too_small.rows
    return _blocks(
        f"# {spoken(summary.sentence)}",
        "\n".join(map(spoken, summary.support)),
        _table(number_columns(audit)),
        f"## {phrase('findings', 'title')}" if heads else "",
        _findings(heads, MOST),
        _more(len(heads) - MOST, "further finding"),
        _bullets(map(spoken, audit.notes)),
        *(block for result in audit.of("period") for block in _period(result)),
        "## Column by column" if results else "",
        _table(columns),
        _more(len(results) - MOST, "further column"),
        f"No significant gap: {wording.listed(names, MOST)}." if names else "",
        f"Excluded or too small to test: {wording.plural(small, 'segment')}." if small else "",
        _bullets(f"Not tested: {spoken(entry.words)}" for entry in audit.unseen),
    )


@of_document
def to_model_card(audit: AuditReport) -> str:
    """A section for a model card: headline, metrics, largest findings, segments without a gap, method.

    Examples
    --------
    >>> to_model_card({"schema": "miscal.audit/1"}).splitlines()[0]
    '## Calibration'
    """
    summary, heads, clean = verdict(audit), audit.findings, audit.clean
    return _blocks(
        "## Calibration",
        f"**{spoken(summary.sentence)}** {' '.join(map(spoken, summary.support))}",
        _table(number_columns(audit)),
        f"### {phrase('findings', 'title')}",
        _findings(heads, MOST_ON_CARD) or phrase("findings", "none"),
        _more(len(heads) - MOST_ON_CARD, "further segment", "significantly miscalibrated"),
        "### No significant gap",
        _table(columns_of(clean.take(range(min(clean.rows, MOST))), "where", "detectable"))
        or "Every column has a finding.",
        _more(clean.rows - MOST, "further column", "likewise"),
        "### Method",
        _bullets(_method_facts(audit)),
    )


def quoted(text: object, limit: int = 100) -> str:
    r"""Any text, escaped for Markdown.

    Examples
    --------
    >>> quoted("a|b [x](y) <i>")
    'a\\|b \\[x\\]\\(y\\) \\<i\\>'
    """
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~$@&^=:-])", r"\\\1", ellipsis(text, limit))


def spoken(text: object) -> str:
    r"""A sentence that contains names of the user: only what Markdown interprets inside a line is escaped.

    Examples
    --------
    >>> spoken("From +8.3 to [x](y) *now* <i>")
    'From +8.3 to \\[x\\]\\(y) \\*now\\* \\<i\\>'
    """
    return re.sub(r"([\\`*_\[\]<>|~$]|(?<=\])\()", r"\\\1", ellipsis(text, 600))


def _blocks(*blocks: str) -> str:
    return "\n\n".join(block for block in blocks if block) + "\n"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _more(n_left: int, what: str, where: str = "in the JSON") -> str:
    """How many are not listed, and where they are."""
    return f"{wording.plural(n_left, what)} {where}." if n_left > 0 else ""


def _table(columns: Sequence[TableColumn]) -> str:
    n_rows = len(columns[0].values)
    cells = [[column.heading, "---:", *_cells(column)] for column in columns]
    cells[0][1] = "---"
    lines = [f"| {' | '.join(line)} |" for line in zip(*cells, strict=True)]
    return "\n".join(lines) if n_rows else ""


def _cells(column: TableColumn) -> list[str]:
    texts = [column.text(k) for k in range(len(column.values))]
    return [quoted(text, 60) for text in texts] if isinstance(column.how, str) else texts


def _findings(heads: Sequence[Finding], most: int) -> str:
    return "\n".join(
        f"{number}. **{quoted(head.where)}** ({quoted(head.kind, 20)}, {quoted(head.code, 20)}): "
        f"{head.sentence} {strength(head)}"
        + (f" {_overlapping(len(head.explained))}" if head.explained else "")
        for number, head in enumerate(heads[:most], 1)
    )


def _overlapping(n_explained: int) -> str:
    segments = wording.plural(n_explained, "overlapping segment is", "overlapping segments are")
    return phrase("findings", "explained", segments=segments, these="this one is") + "."


def _period(result: ResultView) -> list[str]:
    """The steps that changed significantly, then the table of periods."""
    changed, n_smaller = result.changed(MOST)
    return [
        f"## {quoted(result.name or 'Over time')}",
        result.period_summary(),
        _bullets(map(spoken, changed)),
        _more(n_smaller, "smaller step", "in the table"),
        spoken(result.note),
        _table(period_columns(result, MOST_PERIODS)),
        _more(result.table.rows - MOST_PERIODS, "earlier period"),
    ]


def _method_facts(audit: AuditReport) -> list[str]:
    named = ", ".join(quoted(column, 60) for column in audit.probabilities)
    unit = (
        f", per unit of exposure {quoted(audit.data['exposure'], 60)}" if audit.data.get("exposure") else ""
    )
    roles = f"outcome {quoted(audit.outcome, 60)}, {'prediction' if audit.response else 'probability'}"
    facts = [
        wording.rows(audit.rows) + (f" of {quoted(audit.source, 60)}" if audit.source else ""),
        f"{roles} {named}{unit}" if audit.outcome and named else "",
        f"significant: adjusted p at most {audit.level:g}, corrected for all segments tested",
        *(f"not tested: {spoken(entry.words)}" for entry in audit.unseen),
        "all p-values assume that the model was not trained on these rows",
        f"fingerprint of the data {quoted(audit.data['fingerprint'], 60)}"
        if audit.data.get("fingerprint")
        else "",
        f"miscal {quoted(audit.version, 20)}",
    ]
    return [fact for fact in facts if fact]
