"""Every SQL dialect, one class each: how a database spells names, numbers, texts, dates and named values.

The rule: what differs between databases is an attribute or a method here, and nothing outside this module compares the
name of a dialect. Two writers ask a dialect for its spelling:

- `predicate` writes the WHERE clause of a finding (a `Condition` or a `Conjunction`);
- `formula_sql` writes a fitted map (a tree of `formula`'s nodes).

To add a dialect, write a subclass here with what is unlike `Dialect`, list in `unsupported` what the database cannot
do, and add it to `DIALECTS`: findings, recalibrators, the report and the JSON file follow. Its tests run or parse its
SQL in `tests/export`; tests take their dialects from `DIALECTS`. Not allowed here: to look at a formula or at a
condition.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from miscal.data.calendar import moment_text
from miscal.data.checks import one_of
from miscal.data.errors import refusal

INT64_LIMIT = 1 << 63
INT128_LIMIT = 1 << 127
EXP_LIMIT = 700.0  # EXP of more is an error in some databases, and changes no digit of a probability


class Feature(StrEnum):
    """What a dialect may be unable to write; each class lists its own in `unsupported`."""

    PREDICATES = "predicates"  # the WHERE clause of a finding
    NAMED_VALUES = (
        "named values"  # a subquery that names a value: without one the value is written at each use
    )
    TINY_PRODUCTS = (
        "tiny products"  # a product that rounds to 0 is an error, so that scores have a lower bound
    )
    WIDE_INTEGERS = "wide integers"  # whole numbers of more than 64 bits
    NETWORKS = "networks"  # neural networks: use ONNX


class Dialect:
    """The spelling of standard SQL, which the dialects below change.

    Attributes
    ----------
    name : str
        The value of the parameter `dialect`.
    title : str
        The database's name in prose.
    unsupported : frozenset of Feature
        What cannot be written.
    json_key : str
        Key of a finding's clause in its JSON; two dialects whose clauses are equal share one.
    name_quote : str
        The mark around names.
    name_escapes, text_escapes : mapping of str to str
        What a character becomes within a name, and within a text.
    double_type : str
        The type of double precision.
    least, greatest : str
        Names of the functions.
    character_function : str
        Name of the function from a code point to its character.
    decimal_literals : bool
        Whether number literals are exact decimals, so that the whole expression must be converted to double precision.
    case_sensitive_names : bool
        Whether quoted names that differ only in case are different.
    """

    name = ""
    title = ""
    unsupported: frozenset[Feature] = frozenset({Feature.NETWORKS})
    json_key = ""
    name_quote = '"'
    name_escapes: ClassVar[Mapping[str, str]] = {'"': '""'}
    text_escapes: ClassVar[Mapping[str, str]] = {"'": "''"}
    double_type = "DOUBLE"
    least = "LEAST"
    greatest = "GREATEST"
    character_function = "chr"
    decimal_literals = False
    case_sensitive_names = False

    def supports(self, feature: Feature) -> bool:
        """Whether the dialect can write a feature."""
        return feature not in self.unsupported

    # Names and values

    def quote_name(self, name: str) -> str:
        """A column's name in quotes."""
        return self.name_quote + _escape(name, self.name_escapes) + self.name_quote

    def number(self, value: float) -> str:
        """A number with all its digits."""
        return self.digits(repr(float(value)))

    def digits(self, text: str) -> str:
        """A number from its digits, with an exponent: most databases take digits without one for a decimal."""
        return text if "e" in text else f"{text}e0"

    def text(self, text: str) -> str:
        """A text literal."""
        return f"'{_escape(text, self.text_escapes)}'"

    def printable_text(self, text: str) -> str:
        """A text on one line: characters that cannot be seen, such as a line's end, are given by their code point."""
        spelled = (
            character if character.isprintable() else f"' || {self.character_function}({ord(character)}) || '"
            for character in _escape(text, self.text_escapes)
        )
        return f"'{''.join(spelled)}'"

    def boolean(self, value: bool) -> str:
        """A truth value."""
        return "TRUE" if value else "FALSE"

    def moment(self, days: float) -> str:
        """A date or a time, given in days since 1970-01-01."""
        return f"TIMESTAMP '{moment_text(days)}'"

    def moment_column(self, column: str) -> str:
        """A quoted column of dates in the form in which `moment` compares with it."""
        return column

    def literal(self, value: object) -> str:
        """A value of a column: a truth value, a text or a number."""
        limit = INT128_LIMIT if self.supports(Feature.WIDE_INTEGERS) else INT64_LIMIT
        if isinstance(value, bool):
            return self.boolean(value)
        if isinstance(value, str) and "\x00" not in value:
            return self.text(value)
        if isinstance(value, int) and -limit <= value < limit:
            return str(value)
        if isinstance(value, float):
            return self.number(value)
        where, got = f"the level {value!r}", f"it is a {type(value).__name__}"
        raise refusal("cannot be written in SQL", where, got=got)

    # Expressions

    def as_double(self, expression: str) -> str:
        """An expression converted to double precision."""
        return f"CAST({expression} AS {self.double_type})"

    def clip(self, expression: str, low: float, high: float) -> str:
        """An expression, replaced by the nearer bound where it lies outside of [low, high]."""
        at_least = f"{self.greatest}({expression}, {self.number(low)})"
        return f"{self.least}({at_least}, {self.number(high)})"

    def exp(self, expression: str) -> str:
        """The exponential of an expression, clipped so that it neither overflows nor underflows."""
        return f"EXP({self.clip(expression, -EXP_LIMIT, EXP_LIMIT)})"

    def bind(self, name: str, value: str, body: str, table: str) -> str:
        """The body, in which a name stands for a value; `table` is a name that is free for the subquery."""
        return f"(SELECT {body} FROM (SELECT {value} AS {name}) AS {table})"  # noqa: S608


class DuckDB(Dialect):
    """DuckDB."""

    name, title, json_key = "duckdb", "DuckDB", "sql"


class Postgres(Dialect):
    """PostgreSQL; its clauses are those of DuckDB."""

    name, title, json_key = "postgres", "PostgreSQL", "sql"
    unsupported = frozenset({Feature.NETWORKS, Feature.TINY_PRODUCTS})
    double_type = "DOUBLE PRECISION"
    decimal_literals = True
    case_sensitive_names = True

    def bind(self, name: str, value: str, body: str, table: str) -> str:
        """The planner would copy the value to each use of its name, which grows without bound; OFFSET forbids it."""
        return f"(SELECT {body} FROM (SELECT {value} AS {name} OFFSET 0) AS {table})"  # noqa: S608


class SQLite(Dialect):
    """SQLite, which has no type for dates: they are text of several forms, compared as text of one form."""

    name, title, json_key = "sqlite", "SQLite", "sql_sqlite"
    unsupported = frozenset({Feature.NETWORKS, Feature.WIDE_INTEGERS})
    double_type = "REAL"
    least, greatest = "MIN", "MAX"
    character_function = "char"

    def moment(self, days: float) -> str:
        """The text of a moment, in the form of `moment_column`."""
        return self.moment_column("'" + moment_text(days).replace("T", " ") + "'")

    def moment_column(self, column: str) -> str:
        """A date or a time, in whichever form it is stored, as text of one form."""
        return f"strftime('%Y-%m-%d %H:%M:%f', {column})"


class Spark(Dialect):
    """Spark SQL."""

    name, title = "spark", "Spark"
    unsupported = frozenset({Feature.NETWORKS, Feature.PREDICATES, Feature.WIDE_INTEGERS})
    name_quote = "`"
    name_escapes: ClassVar[Mapping[str, str]] = {"`": "``"}
    text_escapes: ClassVar[Mapping[str, str]] = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}

    def bind(self, name: str, value: str, body: str, table: str) -> str:  # noqa: ARG002
        """A function of an array's only entry."""
        return f"ELEMENT_AT(TRANSFORM(ARRAY({value}), {name} -> {body}), 1)"


class BigQuery(Dialect):
    """BigQuery."""

    name, title = "bigquery", "BigQuery"
    unsupported = frozenset({Feature.NETWORKS, Feature.PREDICATES, Feature.WIDE_INTEGERS})
    name_quote = "`"
    name_escapes: ClassVar[Mapping[str, str]] = {"\\": "\\\\", "`": "\\`"}
    text_escapes = Spark.text_escapes
    double_type = "FLOAT64"

    def bind(self, name: str, value: str, body: str, table: str) -> str:  # noqa: ARG002
        """A row of an array of one entry."""
        return f"(SELECT {body} FROM UNNEST([{value}]) AS {name})"  # noqa: S608


class Snowflake(Dialect):
    """Snowflake, which forbids subqueries in many places."""

    name, title = "snowflake", "Snowflake"
    unsupported = frozenset({Feature.NETWORKS, Feature.PREDICATES, Feature.NAMED_VALUES})
    text_escapes = Spark.text_escapes
    decimal_literals = True
    case_sensitive_names = True

    def digits(self, text: str) -> str:
        """A number from a text: a literal of many digits would be a decimal that lacks some."""
        return f"TO_DOUBLE('{super().digits(text)}')"


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (DuckDB(), Postgres(), SQLite(), Spark(), BigQuery(), Snowflake())
}


def dialect_named(name: object, feature: Feature | None = None) -> Dialect:
    """The dialect of a name, rejected where there is none or where it does not support a feature.

    >>> dialect_named("postgres").double_type
    'DOUBLE PRECISION'
    """
    names = tuple(
        known for known, dialect in DIALECTS.items() if feature is None or dialect.supports(feature)
    )
    one_of("dialect", name, names)
    return DIALECTS[str(name)]


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
