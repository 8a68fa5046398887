"""The page: an audit's dictionary in, one self-contained HTML file out; and what a notebook shows of audits.

Nothing is loaded: style and script are inside, allowed by their hashes, everything else is forbidden by the
content-security policy. Every number on the page is in the dictionary. In a notebook the cards and figures are one
piece of markup, whose style holds inside it only, without a script.
"""

import base64
import hashlib
from collections.abc import Callable

import numpy as np

from miscal.data.outputs import FileName
from miscal.report import wording
from miscal.report.codec import of_document, write_text
from miscal.report.html.markup import Child, Safe, asset, ellipsis, join, prose, tag
from miscal.report.html.sections import closing, columns, findings, repair, score
from miscal.report.html.sections.blocks import columns_of, quiet, sheet
from miscal.report.html.sections.findings import Closer
from miscal.report.model import AuditReport
from miscal.report.result_tables import ResultView
from miscal.report.values import JsonMapping, floats

PAGE_BYTES = 1_380_000  # of all sections: pages stay below 1.5 MB
#: What makes each section; that of columns has the room that the others leave.
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
    """Render an audit's dictionary as one HTML page.

    Parameters
    ----------
    audit
        The dictionary of the schema ``miscal.audit/1``, from memory or from JSON.

    Returns
    -------
    str
        The page, complete from doctype to end; no request is made by it.

    Examples
    --------
    >>> to_html({"schema": "miscal.audit/1"}).startswith("<!doctype html>")
    True
    """
    parts = {anchor: make(audit) for anchor, make in SECTIONS.items()}
    spent = sum(len(content.encode()) for content in parts.values())
    parts["columns"] = columns.columns(audit, PAGE_BYTES - spent)
    links = [tag("a", prose("links")[at], href=f"#{at}") for at, content in parts.items() if content]
    body = join(
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        score.header(audit),
        tag("nav", links, aria_label="Sections"),
        tag("main", score.hero(audit), score.key_numbers(audit), parts.values()),
        tag(
            "footer",
            tag("p", prose("page")["printed"], class_="paper"),
            f"Made by miscal {audit.version}. This file is complete: it loads nothing and sends nothing.",
        ),
        tag("div", id="tooltip", role="status", hidden=True),
    )
    about, what = audit.source or audit.outcome, f"Calibration {'repair' if audit.repaired else 'audit'}"
    return _shell(f"{what} of {ellipsis(about, 80)}" if about else what, body)


def write_html(document: object, path: FileName) -> None:
    """Write the page to a file, whole or not at all."""
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
MOST_SAID = 10
_JUDGED = "value noise_floor predicted observed gap gap_low gap_high deviations p_adjusted"


def _framed(*children: Child) -> Safe:
    """In the page's style for what stands inside one element; what it says of the document is said of that element."""
    style = asset("page.css").replace(":root", ":scope").replace("\nbody {", "\n:scope {")
    own = Safe(f"@scope (.miscal) {{\n{style}\n{asset('notebook.css')}\n\n}}")
    return tag("div", tag("style", own), tag("main", *children), class_="miscal")


@of_document
def audit_html(audit: AuditReport) -> str:
    """An audit, or a repair: the verdict, its numbers, the worst findings as cards, and their figures."""
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
    """What changed between two audits, as the page shows it."""
    return _framed(closing.comparison(audit))


@of_document
def finding_html(audit: AuditReport) -> str:
    """The first finding of an audit as its card."""
    return _framed(tag("ol", findings.card(1, audit.findings, Closer(audit)), class_="cards"))


def result_html(result: JsonMapping, said: str) -> str:
    """A result: what it says, its figures, and its cells, levels and places with the worst of them first."""
    table = dict(result["table"])
    if "class" in table:  # their p-values are of their errors, not of the gaps beside them
        names = [f"class {name}" for name in table.pop("class")]
        table |= {"label": names, "value": table.pop("error"), "p_value": None, "gap": None}
    entry = ResultView.from_dict({**result, "table": table})
    order = np.arange(len(entry.cells))
    if "low" not in table and entry.kind != "subpopulation":  # those are in order already
        strength = floats(table["value"]) if "value" in table else entry.cells.strength()
        order = np.argsort(-strength, kind="stable")
    taken = entry.table.take(order.tolist())
    taken["where"] = [entry.cells.label[i] for i in order]
    named = [name for name in ("where", "rows", *_JUDGED.split()) if name in taken]
    with wording.showing(str(entry.settings.get("target", ""))):
        return _framed(
            tag("p", said),
            quiet(str(result["method"])),
            tag("div", columns.figures(entry), class_="pair"),
            sheet("Cells", columns_of(taken, *named), most=MOST_ROWS),
        )


@of_document
def audit_text(audit: AuditReport) -> str:
    """An audit in a few lines, for a prompt: the verdict, the worst places, and where the rest is."""
    said = score.verdict(audit)
    heads = audit.findings
    lines = [f"{number}. {head}" for number, head in enumerate(heads[:MOST_SAID], 1)]
    lines += (
        [f"... and {wording.plural(len(heads) - MOST_SAID, 'more place')}"] if len(heads) > MOST_SAID else []
    )
    notes = [f"Note: {note}" for note in audit.notes]
    where = f"{'Repair' if audit.repaired else 'Audit'}.to_html(path) writes the page."
    return "\n".join([said.sentence, *said.support, *lines, *notes, where])
