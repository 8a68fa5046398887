"""The audit as markdown: for a pull request, a ticket or a chat, where a page cannot go."""

import re
from collections.abc import Iterable, Sequence

from miscal.report import wording
from miscal.report.codec import of_document
from miscal.report.findings import Finding
from miscal.report.html.markup import ellipsis
from miscal.report.html.sections.blocks import TableColumn, columns_of
from miscal.report.html.sections.closing import period_columns
from miscal.report.html.sections.columns import column_list, entries
from miscal.report.html.sections.findings import strength
from miscal.report.html.sections.score import number_columns, verdict
from miscal.report.model import AuditReport
from miscal.report.result_tables import ResultView

#: Findings and columns written out; the rest is counted.
MOST = 20
MOST_WORST = 5  # places on a model card
MOST_PERIODS = 60


@of_document
def to_markdown(audit: AuditReport) -> str:
    """Render an audit's dictionary as markdown.

    Names that the user chose are escaped, so that none of them becomes a link, a tag or a table's border.

    Examples
    --------
    >>> print(to_markdown({"schema": "miscal.audit/1"}).splitlines()[0])
    # There is no number to judge the predictions by.
    """
    said, heads, every = verdict(audit), audit.findings, entries(audit)
    columns = column_list(every[:MOST])
    del columns[1]  # how it was looked at
    names = [quoted(place, 60) for place in audit.clean["where"]]
    small = audit.too_small.rows
    return _blocks(
        f"# {spoken(said.sentence)}",
        "\n".join(map(spoken, said.support)),
        _table(number_columns(audit)),
        "## Where it is wrong" if heads else "",
        _findings(heads, MOST),
        _more(len(heads) - MOST, "further finding"),
        _bullets(map(spoken, audit.notes)),
        *(block for result in audit.of("period") for block in _period(result)),
        "## Column by column" if every else "",
        _table(columns),
        _more(len(every) - MOST, "further column"),
        f"Tested and clean: {wording.listed(names, MOST)}." if names else "",
        f"Too small to judge: {wording.plural(small, 'place')}." if small else "",
        _bullets(f"Not looked at: {spoken(entry.words)}" for entry in audit.unseen),
    )


@of_document
def to_model_card(audit: AuditReport) -> str:
    """A section for a model card: the verdict, its numbers, the worst places, what was clean, how it was measured.

    Examples
    --------
    >>> to_model_card({"schema": "miscal.audit/1"}).splitlines()[0]
    '## Calibration'
    """
    said, heads, places = verdict(audit), audit.findings, audit.clean
    return _blocks(
        "## Calibration",
        f"**{spoken(said.sentence)}** {' '.join(map(spoken, said.support))}",
        _table(number_columns(audit)),
        "### Where it is wrong",
        _findings(heads, MOST_WORST) or "Nothing that was looked at is off beyond noise.",
        _more(len(heads) - MOST_WORST, "further place", "off beyond noise"),
        "### Where nothing was found",
        # Clean means the smallest gap that would have been seen.
        _table(columns_of(places.take(range(min(places.rows, MOST))), "where", "detectable"))
        or "No column was free of findings.",
        _more(places.rows - MOST, "further column", "likewise"),
        "### How it was measured",
        _bullets(_measured(audit)),
    )


def quoted(text: object, limit: int = 100) -> str:
    r"""Any text as markdown that shows it.

    Examples
    --------
    >>> quoted("a|b [x](y) <i>")
    'a\\|b \\[x\\]\\(y\\) \\<i\\>'
    """
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~$@&^=:-])", r"\\\1", ellipsis(text, limit))


def spoken(text: object) -> str:
    r"""A sentence of ours around a user's names: only what markdown would act on inside a line is escaped.

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


def _more(left: int, what: str, how: str = "in the JSON") -> str:
    """What is not written out."""
    return f"{wording.plural(left, what)} {how}." if left > 0 else ""


def _table(columns: Sequence[TableColumn]) -> str:
    many = len(columns[0].values)
    cells = [[column.heading, "---:", *_cells(column)] for column in columns]
    cells[0][1] = "---"
    lines = [f"| {' | '.join(line)} |" for line in zip(*cells, strict=True)]
    return "\n".join(lines) if many else ""


def _cells(column: TableColumn) -> list[str]:
    said = [column.text(k) for k in range(len(column.values))]
    return [quoted(text, 60) for text in said] if isinstance(column.how, str) else said


def _findings(heads: Sequence[Finding], most: int) -> str:
    return "\n".join(
        f"{number}. **{quoted(head.where)}** ({quoted(head.kind, 20)}, {quoted(head.code, 20)}): "
        f"{head.sentence} {strength(head)}"
        + (f" It explains {wording.plural(len(head.explained), 'other place')}." if head.explained else "")
        for number, head in enumerate(heads[:most], 1)
    )


def _period(result: ResultView) -> list[str]:
    """Every week or month, after the steps that changed."""
    changed, left = result.changed(MOST)
    return [
        f"## {quoted(result.name or 'Along time')}",
        result.said(),
        _bullets(map(spoken, changed)),
        _more(left, "smaller step", "in the table"),
        spoken(result.note),
        _table(period_columns(result, MOST_PERIODS)),
        _more(result.table.rows - MOST_PERIODS, "earlier period"),
    ]


def _measured(audit: AuditReport) -> list[str]:
    named = ", ".join(quoted(column, 60) for column in audit.probabilities)
    unit = f", a unit of exposure {quoted(audit.data['exposure'], 60)}" if audit.data.get("exposure") else ""
    roles = f"outcome {quoted(audit.outcome, 60)}, {'prediction' if audit.response else 'probability'}"
    facts = [
        wording.rows(audit.rows) + (f" of {quoted(audit.source, 60)}" if audit.source else ""),
        f"{roles} {named}{unit}" if audit.outcome and named else "",
        f"beyond noise: adjusted p at most {audit.level:g}, over all places that were looked at",
        *(f"not looked at: {spoken(entry.words)}" for entry in audit.unseen),
        "every p-value assumes that the model was not trained on these rows",
        f"fingerprint of the data {quoted(audit.data['fingerprint'], 60)}"
        if audit.data.get("fingerprint")
        else "",
        f"miscal {quoted(audit.version, 20)}",
    ]
    return [fact for fact in facts if fact]
