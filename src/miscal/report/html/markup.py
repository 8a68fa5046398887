"""Escaping by construction: text becomes markup only through `tag`, which escapes whatever is not markup yet."""

import functools
import html
import re
import tomllib
from collections.abc import Iterable
from importlib import resources
from typing import Any, TypeAlias

#: Characters that HTML forbids or that would hide text: controls, lone surrogates, direction overrides.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)")
#: Elements that hold nothing, and SVG's that rarely do: written <line .../>, which is right inside HTML as well.
_EMPTY = frozenset({"meta", "link", "input", "line", "rect", "circle", "polyline", "polygon"})


class Safe(str):
    """A string that is markup already and must not be escaped again."""

    __slots__ = ()


#: What an element may hold: text, markup, several of them, nothing.
Child: TypeAlias = "str | Iterable[str | None] | None"


def clean(text: object) -> str:
    r"""Replace the characters that HTML cannot hold.

    Examples
    --------
    >>> clean("a\x00b")
    'a\ufffdb'
    """
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(text))


def escape(text: object) -> Safe:
    """Turn any text into markup that shows it, in an element or in a quoted attribute.

    Examples
    --------
    >>> escape("</script> & 'x'")
    '&lt;/script&gt; &amp; &#x27;x&#x27;'
    """
    return text if isinstance(text, Safe) else Safe(html.escape(clean(text), quote=True))


def join(*children: Child) -> Safe:
    """Concatenate children, escaping those that are plain text; None is nothing."""
    items = (item for child in children for item in ([child] if isinstance(child, str) else child or ()))
    return Safe("".join(escape(item) for item in items if item is not None))


def tag(element: str, /, *children: Child, **attributes: object) -> Safe:
    """Build one element.

    An attribute's trailing underscore is dropped, other underscores become hyphens (``class_``, ``aria_label``,
    ``stroke_width``). None and False leave the attribute out, True writes it bare.

    Examples
    --------
    >>> tag("p", "a < b", class_="note", hidden=True)
    '<p class="note" hidden>a &lt; b</p>'
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    written = [
        key if value is True else f'{key}="{escape(value)}"'
        for key, value in named.items()
        if value is not None and value is not False
    ]
    start = " ".join([f"<{element}", *written])
    body = join(*children)
    return Safe(f"{start}/>" if element in _EMPTY and not body else f"{start}>{body}</{element}>")


def name(text: object, limit: int = 120) -> Safe:
    """A name that the user chose: direction isolated, shortened with the whole of it in the title, dates unbroken."""
    whole = clean(text)
    short = ellipsis(whole, limit)
    parts = _DATE.split(short)
    parts[1::2] = [tag("span", date, class_="date") for date in parts[1::2]]
    return tag("bdi", parts, title=ellipsis(whole, 400) if short != whole else None)


def ellipsis(text: object, limit: int) -> str:
    """Shorten to at most `limit` characters, in the middle, where names that share a beginning still differ.

    Examples
    --------
    >>> ellipsis("a very long name indeed", 11)
    'a ver…ndeed'
    """
    whole = " ".join(clean(text).split())
    if len(whole) <= limit:
        return whole
    tail = (limit - 1) // 2
    return whole[: limit - 1 - tail] + "…" + whole[len(whole) - tail :]


@functools.cache
def asset(file: str) -> str:
    """Style, script or glossary as embedded in the report, with plain line ends, on which the hashes depend."""
    folder = "miscal.report.html" if file.endswith((".css", ".js")) else "miscal.report"
    text = resources.files(folder).joinpath(file).read_text(encoding="utf-8")
    return "\n".join(text.splitlines()).strip()


@functools.cache
def prose(section: str) -> dict[str, Any]:
    """The sentences, labels and headings of one section of prose.toml, by name."""
    return dict(tomllib.loads(asset("prose.toml"))[section])


def phrase(section: str, key: str, /, **fields: object) -> str:
    """A sentence of prose.toml with its fields filled in.

    Examples
    --------
    >>> phrase("verdict", "over", subject="predictions are")
    'predictions are too high'
    """
    return str(prose(section)[key]).format(**fields)
