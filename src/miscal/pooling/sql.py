"""Conditions as clauses of SQL, with exact edges and every value quoted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miscal.data.errors import refusal
from miscal.pooling.condition import MIRROR, Condition, Level, end_words, moment_of, number_of, number_text

LARGEST = float(np.finfo(np.float64).max)


def clause(condition: Condition, dialect: str) -> str:
    """A WHERE clause for duckdb, sqlite or postgres."""
    return _Sql(condition, dialect).clause()


@dataclass(frozen=True)
class _Sql:
    """A condition as a clause of SQL that is true, or not true, for every row."""

    condition: Condition
    dialect: str

    @property
    def name(self) -> str:
        return '"' + self.condition.column.replace('"', '""') + '"'

    def clause(self) -> str:
        if self.dialect not in ("duckdb", "sqlite", "postgres"):
            raise refusal("must be 'duckdb', 'sqlite' or 'postgres'", where="'dialect'", got=f"it is {self.dialect!r}")
        one = self.condition
        if one.levels == ():
            return f"({self.absent()})" if one.missing else "FALSE"
        known = self.known()
        return f"({known} OR {self.absent()})" if one.missing else f"({known})"

    def known(self) -> str:
        """What holds for values that are not missing, and for no missing ones."""
        one = self.condition
        parts = []
        if one.low is not None:
            sign, text = end_words(one.low, ("<", "<="), one.kind, None)
            parts.append(f"{self.name} {MIRROR[sign]} {self.number(text)}")
        if one.high is not None or one.kind == "numeric":  # NaN is above all numbers there
            sign, text = end_words(LARGEST if one.high is None else one.high, ("<=", "<"), one.kind, None)
            parts.append(f"{self.name} {sign} {self.number(text)}")
        for levels, words in ((one.levels, "IN"), (one.excluded, "NOT IN")):
            if levels:
                parts.append(f"{self.name} {words} ({', '.join(map(self.level, levels))})")
        return " AND ".join([f"{self.name} IS NOT NULL", *parts])

    def absent(self) -> str:
        if self.condition.kind != "numeric" or self.dialect == "sqlite":
            return f"{self.name} IS NULL"
        kind = "DOUBLE" if self.dialect == "duckdb" else "DOUBLE PRECISION"
        return f"{self.name} IS NULL OR {self.name} = CAST('NaN' AS {kind})"

    def level(self, level: Level) -> str:
        if not isinstance(level, str):
            return self.number(number_text(level, self.condition.kind))
        if self.condition.kind == "boolean":
            return level.upper()
        return "'" + level.replace("'", "''") + "'"

    def number(self, text: str) -> str:
        if self.condition.kind == "date":
            moment = moment_of(number_of(text) or 0.0) or text
            return f"'{moment.replace('T', ' ')}'" if self.dialect == "sqlite" else f"TIMESTAMP '{moment}'"
        return text if "e" in text else f"{text}e0"  # with an exponent it is a double and not a decimal
