"""The HTML report of an audit, one self-contained file, and what a notebook shows of audits and results.

`SECTIONS` lists the sections in their order: a new one is a function from `AuditReport` to markup, its entry here, and
its link in prose.toml. Sections compute no statistics: every number in the report is in the audit's JSON.

The file loads nothing: style and script are inside it, allowed by their hashes, and the content-security policy forbids
everything else. In a notebook the cards and figures are one piece of markup without a script, and its style applies
inside it only.
"""

import base64
import hashlib
from collections.abc import Callable

import numpy as np

from miscal.data.outputs import FileName
from miscal.report import wording
from miscal.report.codec import of_document, write_text
from miscal.report.html.markup import Child, Safe, asset, ellipsis, join, phrase, prose, tag
from miscal.report.html.sections import closing, columns, findings, repair, score
from miscal.report.html.sections.blocks import columns_of, quiet, sheet
from miscal.report.html.sections.findings import DetailPanels
from miscal.report.model import AuditReport
from miscal.report.result_tables import ResultView
from miscal.report.values import JsonMapping, floats

REPORT_BYTES = 1_380_000  # of all sections: reports stay below 1.5 MB
#: The function of each section, in their order; the section of columns gets the bytes that the others leave.
SECTIONS: dict[str, Callable[[AuditReport], Safe]] = {
    "findings": findings.findings,
    "advice": repair.advice,
    "comparison": closing.comparison,
    "periods": closing.periods,
    "score": score.score,
    "columns": lambda _: Safe(""),
    "groups": columns.groups,
    "subpopulations": columns.subpopulations,
    "neighbourhoods": columns.neighbourhoods,
    "repair": repair.repair,
    "clean": closing.clean_section,
    "too-small": closing.too_small_section,
    "left-out": closing.left_out_section,
    "method": closing.method,
    "words": closing.definitions,
}


@of_document
def to_html(audit: AuditReport) -> str:
    """Render an audit as one HTML file.

    Parameters
    ----------
    audit : AuditReport or dict
        The audit, or its dictionary of the schema ``miscal.audit/1``.

    Returns
    -------
    str
        The report, complete from doctype to end; it makes no requests.

    Examples
    --------
    >>> to_html({"schema": "miscal.audit/1"}).startswith("<!doctype html>")
    True
    """
    parts = {anchor: make(audit) for anchor, make in SECTIONS.items()}
    spent = sum(len(content.encode()) for content in parts.values())
    parts["columns"] = columns.columns(audit, REPORT_BYTES - spent)
    links = [tag("a", prose("links")[at], href=f"#{at}") for at, content in parts.items() if content]
    body = join(
        tag("a", "Skip to the headline", href="#verdict", class_="skip"),
        score.header(audit),
        tag("nav", links, aria_label="Sections"),
        tag("main", score.hero(audit), score.key_numbers(audit), parts.values()),
        tag(
            "footer",
            tag("p", prose("page")["printed"], class_="paper"),
            phrase("page", "complete", version=audit.version),
        ),
        tag("div", id="tooltip", role="status", hidden=True),
    )
    about, title = (
        audit.source or audit.outcome,
        "Recalibration report" if audit.repaired else "Calibration audit",
    )
    return _shell(f"{title} of {ellipsis(about, 80)}" if about else title, body)


def write_html(document: object, path: FileName) -> None:
    """Write the report to a file, whole or not at all."""
    write_text(path, to_html(document))


def _shell(title: str, body: Safe) -> str:
    style, script = asset("page.css"), asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=Safe(policy)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Safe(style)),
    )
    page = tag("html", head, tag("body", body, tag("script", Safe(script))), lang="en")
    return f"<!doctype html>\n{page}\n"


def digest(text: str) -> str:
    """The hash by which a content-security policy allows an inline style or script.

    Examples
    --------
    >>> digest("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


MOST = 4  # cards, and figures of columns
MOST_ROWS = 20
MOST_LINES = 10
_RESULT_COLUMNS = "value noise_floor predicted observed gap gap_low gap_high deviations p_adjusted"


def _framed(*children: Child) -> Safe:
    """Markup in the style of the report, scoped to one element, in place of the whole document."""
    style = asset("page.css").replace(":root", ":scope").replace("\nbody {", "\n:scope {")
    scoped = Safe(f"@scope (.miscal) {{\n{style}\n{asset('notebook.css')}\n\n}}")
    return tag("div", tag("style", scoped), tag("main", *children), class_="miscal")


@of_document
def audit_html(audit: AuditReport) -> str:
    """An audit, or a recalibration: headline, key numbers, the first findings as cards, and figures."""
    return _framed(
        score.hero(audit),
        score.key_numbers(audit),
        repair.repair(audit),
        findings.findings(audit, MOST),
        [tag("div", columns.figures(entry), class_="pair") for entry in audit.of("score")[:1]],
        tag(
            "div",
            [columns.figures(entry)[0] for entry in columns.entries(audit)[:MOST]],
            class_="grid",
        ),
        quiet(prose("page")["notebook"]),
    )


@of_document
def comparison_html(audit: AuditReport) -> str:
    """What changed between two audits, as the report shows it."""
    return _framed(closing.comparison(audit))


@of_document
def finding_html(audit: AuditReport) -> str:
    """The first finding of an audit as its card."""
    return _framed(tag("ol", findings.card(1, audit.findings, DetailPanels(audit)), class_="cards"))


def result_html(result: JsonMapping, summary: str) -> str:
    """A result: its summary, figures, and table of cells, those with the largest excess of events first."""
    table = dict(result["table"])
    if "class" in table:  # p-values of classes test the errors, not the gaps in the same row
        names = [f"class {name}" for name in table.pop("class")]
        table |= {"label": names, "value": table.pop("error"), "p_value": None, "gap": None}
    entry = ResultView.from_dict({**result, "table": table})
    order = np.arange(len(entry.cells))
    if "low" not in table and entry.kind != "subpopulation":  # both are in order already
        strength = floats(table["value"]) if "value" in table else entry.cells.strength()
        order = np.argsort(-strength, kind="stable")
    rows = entry.table.take(order.tolist())
    rows["where"] = [entry.cells.label[i] for i in order]
    names = [name for name in ("where", "rows", *_RESULT_COLUMNS.split()) if name in rows]
    with wording.showing(str(entry.settings.get("target", ""))):
        return _framed(
            tag("p", summary),
            quiet(str(result["method"])),
            tag("div", columns.figures(entry), class_="pair"),
            sheet("Cells", columns_of(rows, *names), most=MOST_ROWS),
        )


@of_document
def audit_text(audit: AuditReport) -> str:
    """An audit in a few lines of text: headline, first findings, notes, and how to write the report."""
    summary = score.verdict(audit)
    heads = audit.findings
    lines = [f"{number}. {head}" for number, head in enumerate(heads[:MOST_LINES], 1)]
    lines += (
        [f"... and {wording.plural(len(heads) - MOST_LINES, 'more segment')}"]
        if len(heads) > MOST_LINES
        else []
    )
    notes = [f"Note: {note}" for note in audit.notes]
    where = f"{'Repair' if audit.repaired else 'Audit'}.to_html(path) writes the report."
    return "\n".join([summary.sentence, *summary.support, *lines, *notes, where])
