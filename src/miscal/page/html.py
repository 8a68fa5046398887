"""The page: an audit's dictionary in, one self-contained HTML file out.

Nothing is loaded: style and script are inside, allowed by their hashes, everything else is forbidden by the
content-security policy. Every number on the page is in the dictionary.
"""

from __future__ import annotations

import base64
import hashlib
from os import PathLike

from miscal.page.json import write_text
from miscal.page.markup import Safe, asset, ellipsis, join, tag
from miscal.page.records import Document, in_its_words, read_document
from miscal.page.sections import closing, columns, findings, repair, score

#: Bytes for the figures of columns, and for all sections: pages stay below 1.5 MB.
FIGURE_BYTES, PAGE_BYTES = 600_000, 1_380_000
COLUMNS_AT = 5  # the place of that section
_PRINTED = "On paper: the first rows of each table, the first figures, and what was open. The file itself has the rest."


@in_its_words
def to_html(document: object) -> str:
    """Render an audit's dictionary as one HTML page.

    Parameters
    ----------
    document
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
    audit = read_document(document)
    parts = [
        ("findings", "Findings", findings.findings(audit)),
        ("advice", "What to do", repair.advice(audit)),
        ("comparison", "Baseline", closing.comparison(audit)),
        ("periods", "Time", closing.periods(audit)),
        ("score", "Score", score.score(audit)),
        ("groups", "Groups", columns.groups(audit)),
        ("subpopulations", "Subpopulations", columns.subpopulations(audit)),
        ("neighbourhoods", "Neighbourhoods", columns.neighbourhoods(audit)),
        ("repair", "Repair", repair.repair(audit)),
        ("clean", "Clean", closing.clean_section(audit)),
        ("too-small", "Too small", closing.too_small_section(audit)),
        ("left-out", "Not looked at", closing.left_out_section(audit)),
        ("method", "Method", closing.method(audit)),
        ("words", "Words", closing.definitions(audit)),
    ]
    spent = sum(len(content.encode()) for _, _, content in parts)
    drawn = columns.columns(audit, FIGURE_BYTES, PAGE_BYTES - spent)
    parts.insert(COLUMNS_AT, ("columns", "Columns", drawn))
    links = [tag("a", label, href=f"#{anchor}") for anchor, label, content in parts if content]
    body = join(
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        score.header(audit),
        tag("nav", links, aria_label="Sections"),
        tag("main", score.hero(audit), score.key_numbers(audit), [content for _, _, content in parts]),
        tag(
            "footer",
            tag("p", _PRINTED, class_="paper"),
            f"Made by miscal {audit.version}. This file is complete: it loads nothing and sends nothing.",
        ),
        tag("div", id="tooltip", role="status", hidden=True),
    )
    return _shell(_title(audit), body)


def write_html(document: object, path: str | PathLike[str]) -> None:
    """Write the page to a file, whole or not at all."""
    write_text(path, to_html(document))


def _title(audit: Document) -> str:
    about = audit.source or audit.outcome
    what = "Calibration repair" if audit.repaired else "Calibration audit"
    return f"{what} of {ellipsis(about, 80)}" if about else what


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
