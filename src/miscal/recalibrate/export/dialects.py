"""What databases write differently: names, texts, numbers, and a value under a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from miscal.data.checks import one_of
from miscal.data.errors import refusal

SUBQUERY = "(SELECT {body} FROM (SELECT {value} AS {name}) AS {table})"
# PostgreSQL would write the value wherever its name stands, which grows without bound; OFFSET forbids it.
FENCED = "(SELECT {body} FROM (SELECT {value} AS {name} OFFSET 0) AS {table})"
WHOLE = 1 << 63  # where 64-bit integers end


@dataclass(frozen=True)
class Dialect:
    """How one database writes what an expression needs.

    quote : of a name
    within : what characters of a name become
    escapes : whether a backslash means something within a text
    double : the type of probabilities
    number : a number, from all its digits, as a double, or as a decimal that keeps them
    exact : whether numbers are decimals, so that the whole must be converted
    let : a value under a name, for a body; empty where the value is written wherever the name stands
    cased : whether quoted names that differ only in case are different
    floor : what scores are held above, where a product that rounds to 0 is an error
    widest : whole numbers lie below it
    """

    quote: str = '"'
    within: tuple[tuple[str, str], ...] = (('"', '""'),)
    escapes: bool = False
    double: str = "DOUBLE"
    number: str = "{}"
    exact: bool = False
    least: str = "LEAST"
    greatest: str = "GREATEST"
    let: str = SUBQUERY
    cased: bool = False
    floor: float = 0.0
    widest: int = 1 << 127

    def quoted(self, name: str) -> str:
        """A column's name, which must be one."""
        if not isinstance(name, str) or not name or "\x00" in name:
            raise refusal("must be the name of a column", where="in SQL a column", got=f"it is {name!r}")
        for plain, written in self.within:
            name = name.replace(plain, written)
        return self.quote + name + self.quote

    def digits(self, value: float) -> str:
        """All digits of a number, with an exponent: most databases take plain ones for decimals."""
        text = repr(float(value))
        return self.number.format(text if "e" in text else f"{text}e0")

    def level(self, level: Any) -> str:
        """A level of a column."""
        if isinstance(level, bool):
            return "TRUE" if level else "FALSE"
        if isinstance(level, str) and "\x00" not in level:
            return self._text(level)
        if isinstance(level, int) and -self.widest <= level < self.widest:
            return str(level)
        if isinstance(level, float):
            return self.digits(level)
        raise refusal("cannot be written in SQL", where=f"the level {level!r}", got=f"it is a {type(level).__name__}")

    def _text(self, level: str) -> str:
        if not self.escapes:
            return "'" + level.replace("'", "''") + "'"
        for plain, escaped in {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}.items():
            level = level.replace(plain, escaped)
        return f"'{level}'"

    def as_double(self, expression: str) -> str:
        """An expression as a double."""
        return f"CAST({expression} AS {self.double})"


DIALECTS = {
    "duckdb": Dialect(),
    "postgres": Dialect(double="DOUBLE PRECISION", exact=True, let=FENCED, cased=True, floor=1e-300),
    "sqlite": Dialect(double="REAL", least="MIN", greatest="MAX", widest=WHOLE),
    "spark": Dialect(
        quote="`",
        within=(("`", "``"),),
        escapes=True,
        let="ELEMENT_AT(TRANSFORM(ARRAY({value}), {name} -> {body}), 1)",
        widest=WHOLE,
    ),
    "bigquery": Dialect(
        quote="`",
        within=(("\\", "\\\\"), ("`", "\\`")),
        escapes=True,
        double="FLOAT64",
        let="(SELECT {body} FROM UNNEST([{value}]) AS {name})",
        widest=WHOLE,
    ),
    "snowflake": Dialect(escapes=True, number="TO_DOUBLE('{}')", exact=True, let="", cased=True),
}


def dialect_named(name: Any) -> Dialect:
    """One of `DIALECTS`, or a refusal that lists them."""
    one_of("dialect", name, tuple(DIALECTS))
    return DIALECTS[name]
