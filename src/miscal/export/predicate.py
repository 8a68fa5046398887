"""A condition on rows as an SQL WHERE clause that picks exactly the rows that the condition picks in Python.

The rule: edges keep every digit, the sign of a range's end is the one of the condition's words, and a missing value
(NULL, and NaN where a database has it) belongs only where the condition says so. How a database spells a name, a number
or a date is a question for its class in `dialects`.
"""

from collections.abc import Callable

from miscal.cells.condition import LARGEST, MIRROR, Condition, Conjunction, Level, end_words, number_text
from miscal.codes.data import ColumnKind, SqlLiteral
from miscal.data.calendar import number_of
from miscal.data.column_types import column_type
from miscal.export.dialects import DIALECTS, Dialect, Feature, dialect_named


def where_clause(predicate: Condition | Conjunction, dialect: str = "duckdb") -> str:
    """A WHERE clause.

    Parameters
    ----------
    predicate : Condition or Conjunction
        Which rows belong.
    dialect : str
        The name of a dialect that supports predicates.

    Returns
    -------
    str
        An expression on one line; "TRUE" for a conjunction without conditions.

    Examples
    --------
    >>> where_clause(Condition("age", high=31.0, missing=True))
    '("age" IS NOT NULL AND "age" <= 31e0 OR "age" IS NULL OR "age" > 1.7976931348623157e+308)'
    >>> where_clause(Conjunction(), "sqlite")
    'TRUE'
    """
    writer = dialect_named(dialect, Feature.PREDICATES)
    conditions = predicate.conditions if isinstance(predicate, Conjunction) else (predicate,)
    return " AND ".join(_condition(condition, writer) for condition in conditions) or "TRUE"


def titles_by_key() -> dict[str, list[str]]:
    """The titles of the databases that read a clause, by the clause's key in JSON and CSV.

    >>> titles_by_key()
    {'sql': ['DuckDB', 'PostgreSQL'], 'sql_sqlite': ['SQLite']}
    """
    titles: dict[str, list[str]] = {}
    for dialect in _writers():
        titles.setdefault(dialect.json_key, []).append(dialect.title)
    return titles


def clauses_by_key(to_sql: Callable[[str], str]) -> dict[str, str]:
    """The clauses of a finding that JSON and CSV have, by their key there.

    Parameters
    ----------
    to_sql : callable
        The clause from the name of a dialect.
    """
    names = {dialect.json_key: dialect.name for dialect in reversed(_writers())}
    return {key: to_sql(names[key]) for key in titles_by_key()}


def _writers() -> list[Dialect]:
    return [dialect for dialect in DIALECTS.values() if dialect.supports(Feature.PREDICATES)]


def _condition(condition: Condition, dialect: Dialect) -> str:
    literal, column = column_type(condition.kind).sql_literal, dialect.quote_name(condition.column)
    column = dialect.moment_column(column) if literal == SqlLiteral.MOMENT else column
    absent = f"{column} IS NULL"
    if (
        literal == SqlLiteral.NUMBER
    ):  # NaN is above all numbers where a database has it; no audit has infinity
        absent += f" OR {column} > {LARGEST!r}"
    if condition.levels == ():
        return f"({absent})" if condition.missing else "FALSE"
    tests = [f"{column} IS NOT NULL", *_range(condition, column, literal, dialect)]
    for levels, operator in ((condition.levels, "IN"), (condition.excluded, "NOT IN")):
        if levels:
            values = ", ".join(_level(level, condition.kind, literal, dialect) for level in levels)
            tests.append(f"{column} {operator} ({values})")
    known = " AND ".join(tests)
    return f"({known} OR {absent})" if condition.missing else f"({known})"


def _range(condition: Condition, column: str, literal: SqlLiteral, dialect: Dialect) -> list[str]:
    """Comparisons with the ends of a range; of numbers also one that NaN does not pass."""
    tests, high = [], condition.high
    if condition.low is not None:
        sign, text = end_words(condition.low, condition.kind)
        tests.append(f"{column} {MIRROR[sign]} {_number(text, literal, dialect)}")
    if high is None and literal == SqlLiteral.NUMBER:
        high = LARGEST
    if high is not None:
        sign, text = end_words(high, condition.kind, upper=True)
        tests.append(f"{column} {sign} {_number(text, literal, dialect)}")
    return tests


def _level(level: Level, kind: ColumnKind, literal: SqlLiteral, dialect: Dialect) -> str:
    if not isinstance(level, str):
        return _number(number_text(level, kind), literal, dialect)
    return (
        dialect.boolean(level == "True") if literal == SqlLiteral.BOOLEAN else dialect.printable_text(level)
    )


def _number(text: str, literal: SqlLiteral, dialect: Dialect) -> str:
    return dialect.moment(number_of(text) or 0.0) if literal == SqlLiteral.MOMENT else dialect.digits(text)
