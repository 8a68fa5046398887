"""A figure on the page: caption, drawing, and the data behind it one click away."""

from __future__ import annotations

import json
import math
import re

from miscal.page.figures import Figure
from miscal.page.markup import Safe, clean, ellipsis, name, tag
from miscal.page.words import finite

#: Rows of data kept behind one figure; the JSON has them all.
MOST_ROWS = 2000


def slug(text: object, prefix: str) -> str:
    """An identifier that can stand in an address: the prefix, which makes it the only one, and what letters there are.

    Examples
    --------
    >>> slug("Wind speed", "variable-3")
    'variable-3-wind-speed'
    """
    words = re.sub(r"[^a-z0-9]+", "-", str(text)[:80].lower()).strip("-")[:40]
    return f"{prefix}-{words}" if words else prefix


def figure(
    drawn: Figure, caption: str = "", *, heading: str = "", identity: str | None = None, searched: str = ""
) -> Safe:
    """Wrap a drawing; one that has nothing to show becomes its own description."""
    body = drawn.svg or tag("p", drawn.description, class_="quiet")
    words = " ".join(part for part in (caption, drawn.note) if part)
    return tag(
        "figure",
        tag("figcaption", tag("h4", name(heading or drawn.title, 80)), tag("p", words) if words else None),
        body,
        _tools(drawn) if drawn.table else None,
        id=identity,
        data_search=searched.lower() or None,
    )


def _tools(drawn: Figure) -> Safe:
    return tag(
        "div",
        tag("button", "Data as table", type="button", class_="show", aria_expanded="false"),
        tag("button", "Data as CSV", type="button", class_="csv"),
        data_block(drawn.title, drawn.table),
        tag("div", class_="sheet", hidden=True),
        class_="tools",
    )


def data_block(title: str, table: dict[str, list[object]]) -> Safe:
    """Columns of data for the script to show or to save: a data block, which browsers never run."""
    columns = {clean(key): [_entry(item) for item in column[:MOST_ROWS]] for key, column in table.items()}
    longest = max((len(column) for column in table.values()), default=0)
    content = {"title": ellipsis(title, 120), "columns": columns, "cut": longest if longest > MOST_ROWS else 0}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Inside a script element only these three can end it or start a comment.
    harmless = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", Safe(harmless), type="application/json")


def _entry(item: object) -> object:
    if isinstance(item, str):
        return ellipsis(item, 400)
    if isinstance(item, bool) or item is None:
        return item
    if isinstance(item, int):
        return item
    number = finite(item)
    return None if math.isnan(number) else float(f"{number:.6g}")
