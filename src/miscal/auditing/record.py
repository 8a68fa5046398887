"""An audit as users hold it: a report without the rows, which is saved, loaded, compared and rendered again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from miscal.auditing.compare import Comparison, SavedCells, compare
from miscal.auditing.disclosure import suppressed
from miscal.auditing.finding_rows import rows_of
from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal, refusing
from miscal.data.outputs import FileName, check_file, load_arrays, save_arrays
from miscal.report.codec import (
    SCHEMA,
    comparison_from,
    dumps,
    from_json,
    plain,
    read_json,
    to_json,
    write_json,
)
from miscal.report.findings import Finding
from miscal.report.model import AuditReport
from miscal.results import Result

FILE = "miscal.audit-file/1"
HINT = (
    "a saved audit is the file that `miscal audit TABLE --save FILE` or Audit.save(FILE) writes, without the rows; the "
    "JSON of `miscal audit TABLE --json FILE` will do too, though it has no sums of cells"
)
HIDE = (
    "hide_below"  # the setting of a saved audit: cells of fewer rows are saved, and left out of its reports
)


class RenderMixin:
    """What has a report: it is written as HTML and as JSON, and shown in a notebook."""

    report: AuditReport

    def shown_report(self) -> AuditReport:
        """The report as it may be shown."""
        return self.report

    def to_html(self, path: FileName) -> None:
        """Write the HTML report, whole or not at all."""
        from miscal.report.html.page import write_html

        write_html(self.shown_report(), path)

    def to_json(self, path: FileName) -> None:
        """Write the JSON, whole or not at all."""
        write_json(to_json(self.shown_report()), path)

    def _repr_html_(self) -> str:
        from miscal.report.html.page import audit_html

        return audit_html(self.shown_report())


@dataclass(frozen=True, eq=False)
class Audit(RenderMixin):
    """What `miscal.audit` found; `Audit.load` reads one back.

    Attributes
    ----------
    findings : list of Finding
        The segments that are significantly miscalibrated, best first; each holds those that it explains.
    results : list of Result
        The results of score and columns; empty once loaded from a file.
    report : AuditReport
        Everything that reports show.
    carriers : dict of str to SavedCells
        Sums of the cells of each result, by its kind and column, for a comparison.
    """

    report: AuditReport
    results: list[Result] = field(default_factory=list)
    carriers: Plain = field(default_factory=dict)

    @cached_property
    def document(self) -> Plain:
        """The dictionary of the schema ``miscal.audit/1``, as `to_json` writes it."""
        return to_json(self.report)

    @property
    def findings(self) -> list[Finding]:
        """The segments that are significantly miscalibrated, best first; each holds those that it explains."""
        return list(self.report.all_findings)

    @property
    def score(self) -> Plain:
        """The numbers by score."""
        return dict(self.document["score"])

    @property
    def clean(self) -> list[Plain]:
        """Columns without a significant gap, with the smallest gap that would have been significant."""
        return list(self.document["clean"])

    @property
    def too_small(self) -> list[Plain]:
        """Segments too small to test, and excluded columns, each with the reason."""
        return list(self.document["too_small"])

    @property
    def left_out(self) -> list[Plain]:
        """What was not tested: pairs, levels, columns and tests, each with the reason and how to ask for it.

        Examples
        --------
        >>> import miscal
        >>> table = {
        ...     "y": [0, 1] * 50,
        ...     "p": [0.4, 0.6] * 50,
        ...     "a": ["u"] * 50 + ["v"] * 50,
        ...     "b": ["u", "u", "v", "v"] * 25,
        ... }
        >>> audit = miscal.audit(table, outcome="y", probability="p", effort="quick")
        >>> audit.left_out[-2]["what"], audit.left_out[-2]["where"], audit.left_out[-2]["ask"]
        ('pairs', ['a and b'], '--effort normal')
        """
        return list(self.document["left_out"])

    @property
    def notes(self) -> list[str]:
        """What is odd about the table, a sentence per note."""
        return self.report.notes

    def to_markdown(self) -> str:
        """The audit as markdown."""
        from miscal.report.markdown import to_markdown

        return to_markdown(self.shown_report())

    def to_model_card(self) -> str:
        """A section of markdown for a model card: verdict, numbers, findings, clean columns, how it was measured.

        Examples
        --------
        >>> import miscal
        >>> found = miscal.audit({"y": [0, 1] * 50, "p": [0.4, 0.6] * 50}, outcome="y", probability="p")
        >>> found.to_model_card().splitlines()[0]
        '## Calibration'
        """
        from miscal.report.markdown import to_model_card

        return to_model_card(self.shown_report())

    def save(self, path: FileName) -> None:
        """Write the report and the sums of cells to one file, whole or not at all; it holds no row.

        Of an audit that hides small cells the file keeps them: only its owner may read it.
        """
        text = dumps({"document": self.document, "cells": self.carriers})
        save_arrays(Path(path), FILE, {"text": text}, {}, mode=0o600 if self.hidden_below else None)

    @classmethod
    def load(cls, path: FileName) -> Audit:
        """Read an audit that `save` wrote; it can be rendered and compared again without the data.

        The JSON of `to_json` is read too. It has no sums of cells: compared with it, only findings and scores are.

        Raises
        ------
        MiscalError
            Where the file is not a saved audit, or a part of it is not what it must be.
        """
        check_file(path)
        where = f"'{path}'"
        document, carriers = _saved_parts(path, where)
        with refusing("is damaged", where):  # JSON that was changed by hand may fail anywhere
            return cls(from_json(document), [], carriers)

    def compare(self, other: Audit) -> Comparison:
        """What became better and what became worse in `other`, a later audit: of another model, or of another period.

        On the same rows (the same outcomes in the same order) the comparison is paired; otherwise gaps are compared as
        those of independent rows. Levels are matched by name. Ranges that were cut at other edges are joined to those
        between round numbers that both have; columns without any are in `left_out`.
        """
        if not isinstance(other, Audit):
            hint = "give miscal.audit(...) or miscal.Audit.load(path)"
            raise refusal("must be an Audit", "'other'", got=f"it is {other!r}", hint=hint)
        return compare(self, other)

    def with_comparison(self, before: Audit) -> Audit:
        """The same audit with what changed since an earlier one, for reports and JSON."""
        comparison = comparison_from(before.compare(self).to_dict())
        return replace(self, report=replace(self.report, comparison=comparison))

    def with_data(self, **described: Any) -> Audit:
        """The same audit with other descriptions of its table."""
        return replace(self, report=replace(self.report, data={**self.report.data, **described}))

    def suppressed(self, below: int) -> Audit:
        """The same audit without the numbers of cells of fewer than `below` rows; sums of cells are left out."""
        what = "lacks what is needed to hide small cells"  # JSON that was changed by hand may fail anywhere
        with refusing(what, "the audit", hint="audit the table again"):
            return Audit(from_json(plain(suppressed(self.document, below)), complete=False))

    @property
    def hidden_below(self) -> int:
        """Cells of fewer rows are left out of HTML, JSON and text; 0 for none."""
        return int(self.report.settings.get(HIDE, 0))

    def shown(self) -> Audit:
        """What may be shown of the audit: itself, or without the small cells that it is to hide."""
        return self.hiding(0).suppressed(self.hidden_below) if self.hidden_below else self

    def shown_report(self) -> AuditReport:
        """The report as it may be shown."""
        return self.shown().report

    def hiding(self, below: int) -> Audit:
        """The same audit, every cell kept, that hides small cells in what is written of it; only `save` keeps them."""
        settings = {key: value for key, value in self.report.settings.items() if key != HIDE}
        if below:
            settings[HIDE] = int(below)
        return replace(self, report=replace(self.report, settings=settings))

    def rows_of(self, finding: Finding, data: Any) -> Array:
        """Which rows of predictions, or of a frame of any library, a finding is about, as truth values."""
        return rows_of(finding, data)

    def __repr__(self) -> str:
        from miscal.report.html.page import audit_text

        return audit_text(self.shown_report())


def _saved_parts(path: FileName, where: str) -> tuple[Plain, Plain]:
    """The dictionary and the sums of cells of a saved audit, or of its JSON, which has none."""
    content = b""
    with suppress(OSError):  # the other reader says why a file cannot be read
        content = Path(path).read_bytes()
    if content.lstrip()[:1] == b"{" and SCHEMA.encode() in content:
        return dict(read_json(path)), {}
    header, arrays = load_arrays(Path(path), FILE, what="a saved audit", hint=HINT)
    if arrays:
        got = f"it holds {min(arrays)!r:.80}, which no saved audit has"
        raise refusal("is damaged", where, got=got)
    with refusing("is damaged", where):
        saved = json.loads(header["text"])
        cells = {str(name): SavedCells.from_dict(sums) for name, sums in saved.get("cells", {}).items()}
        document = dict(saved["document"])
    return document, cells
