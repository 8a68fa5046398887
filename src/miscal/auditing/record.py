"""Audit: what was found, kept without the rows; saved, loaded, compared and rendered again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from miscal.auditing.compare import Comparison, compare, read_cells
from miscal.auditing.finding_rows import rows_of
from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal, refusing
from miscal.data.outputs import FileName, check_file, load_arrays, save_arrays
from miscal.report.codec import SCHEMA, checked, dumps, read_json, write_json
from miscal.report.findings import Finding
from miscal.results import Result

FILE = "miscal.audit-file/1"
HINT = (
    "a saved audit is the file that `miscal audit TABLE --save FILE` or Audit.save(FILE) writes, without the rows; the "
    "JSON of `miscal audit TABLE --json FILE` will do too, though it has no sums of cells"
)
PARTS = dict.fromkeys(("data", "settings", "score", "sections"), dict)
LISTS = dict.fromkeys(("findings", "clean", "too_small"), list)
HIDE = "hide_below"  # the setting of a saved audit: cells of fewer rows are kept, and left out of its pages


class RenderMixin:
    """What has a document: it is written as a page and as JSON, and shown in a notebook."""

    def shown(self) -> Any:
        """What may be shown of it."""
        return self

    def to_html(self, path: FileName) -> None:
        """Write the page, whole or not at all."""
        import_module("miscal.report.html.page").write_html(self.shown().document, path)

    def to_json(self, path: FileName) -> None:
        """Write the JSON, whole or not at all."""
        write_json(self.shown().document, path)

    def _repr_html_(self) -> str:
        return str(import_module("miscal.report.html.page").audit_html(self.shown().document))


@dataclass(frozen=True, eq=False)
class Audit(RenderMixin):
    """What an audit found; `document` is the JSON of the contract, from which page and text are made.

    Attributes
    ----------
    document : the dictionary of the schema ``miscal.audit/1``
    findings : those beyond noise first, each followed by the ones that it explains
    results : the results of score and columns with their carriers; empty once loaded from a file
    carriers : sums of the cells of each result, by its kind and column, for a comparison
    """

    document: Plain
    findings: list[Finding]
    results: list[Result] = field(default_factory=list)
    carriers: Plain = field(default_factory=dict)

    @property
    def score(self) -> Plain:
        """The numbers by score."""
        return dict(self.document["score"])

    @property
    def clean(self) -> list[Plain]:
        """Columns tested in which nothing was beyond noise, with the smallest gap that could have been seen."""
        return list(self.document["clean"])

    @property
    def too_small(self) -> list[Plain]:
        """Places too small to judge, and columns set aside."""
        return list(self.document["too_small"])

    @property
    def left_out(self) -> list[Plain]:
        """What was not looked at: pairs, levels, columns and tests, each with the reason and how to ask for it.

        Examples
        --------
        >>> import miscal
        >>> table = {
        ...     "y": [0, 1] * 50,
        ...     "p": [0.4, 0.6] * 50,
        ...     "a": ["u"] * 50 + ["v"] * 50,
        ...     "b": ["u", "u", "v", "v"] * 25,
        ... }
        >>> found = miscal.audit(table, outcome="y", probability="p", effort="quick")
        >>> found.left_out[-2]["what"], found.left_out[-2]["where"], found.left_out[-2]["ask"]
        ('pairs', ['a and b'], '--effort normal')
        """
        return list(self.document.get("left_out", []))

    @property
    def notes(self) -> list[str]:
        """What is odd about the table, a sentence each."""
        return list(self.document.get("notes", []))

    def to_markdown(self) -> str:
        """The audit as text."""
        return str(import_module("miscal.report.markdown").to_markdown(self.shown().document))

    def to_model_card(self) -> str:
        """A section of markdown for a model card: verdict, numbers, worst places, clean columns, how it was measured.

        Examples
        --------
        >>> import miscal
        >>> found = miscal.audit({"y": [0, 1] * 50, "p": [0.4, 0.6] * 50}, outcome="y", probability="p")
        >>> found.to_model_card().splitlines()[0]
        '## Calibration'
        """
        return str(import_module("miscal.report.markdown").to_model_card(self.shown().document))

    def save(self, path: FileName) -> None:
        """Write dictionary and sums of cells to one file, whole or not at all; it holds no row.

        Of an audit that hides small cells the file keeps them: only its owner may read it.
        """
        text = dumps({"document": self.document, "cells": self.carriers})
        save_arrays(Path(path), FILE, {"text": text}, {}, mode=0o600 if self.hidden_below else None)

    @classmethod
    def load(cls, path: FileName) -> Audit:
        """Read an audit that `save` wrote; it can be rendered and compared again without the data.

        The JSON of `to_json` is read too. It has no sums of cells: compared with it, only findings and scores are.
        """
        from miscal.report.model import read_document

        check_file(path)
        content, carriers, where = b"", {}, f"'{path}'"
        with suppress(OSError):  # of what cannot be read the other reader says what it is not
            content = Path(path).read_bytes()
        if content.lstrip()[:1] == b"{" and SCHEMA.encode() in content:
            document = read_json(path)
        else:
            header, arrays = load_arrays(Path(path), FILE, what="a saved audit", hint=HINT)
            if arrays:
                got = f"it holds {min(arrays)!r:.80}, which no saved audit has"
                raise refusal("is damaged", where, got=got)
            with refusing("is damaged", where):
                kept = json.loads(header["text"])
                carriers = {str(name): read_cells(each) for name, each in kept.get("cells", {}).items()}
                document = checked(kept["document"])
        lacking = [part for part, kind in (PARTS | LISTS).items() if not isinstance(document.get(part), kind)]
        if lacking:
            raise refusal("is damaged", where, got=f"it has no '{lacking[0]}'")
        with refusing("is damaged", where):  # JSON that was changed by hand may fail anywhere
            return cls(dict(document), read_document(document).findings, [], carriers)

    def compare(self, other: Audit) -> Comparison:
        """Say what got better and what got worse in `other`, a later audit: of another model, or of another period.

        On the same rows (the same outcomes in the same order) the comparison is paired; otherwise gaps are compared as
        those of independent rows. Levels are matched by name. Ranges that were cut at other
        edges are joined to those between round numbers that both have; columns without any are in `left_out`.
        """
        if not isinstance(other, Audit):
            hint = "give miscal.audit(...) or miscal.Audit.load(path)"
            raise refusal("must be an Audit", "'other'", got=f"it is {other!r}", hint=hint)
        return compare(self, other)

    def with_comparison(self, before: Audit) -> Audit:
        """The same audit with what changed since an earlier one, for the page and the JSON."""
        return replace(self, document={**self.document, "comparison": before.compare(self).to_dict()})

    def suppressed(self, below: int) -> Audit:
        """The same audit without the numbers of cells of fewer than `below` rows; carriers are left out."""
        from miscal.auditing.disclosure import suppressed

        what = "lacks what is needed to hide small cells"  # JSON that was changed by hand may fail anywhere
        with refusing(what, "the audit", hint="audit the table again"):
            document = suppressed(self.document, below)
        return Audit(document, [Finding.from_dict(item) for item in document["findings"]])

    @property
    def hidden_below(self) -> int:
        """Cells of fewer rows are left out of page, JSON and text; 0 for none."""
        return int(self.document["settings"].get(HIDE, 0))

    def shown(self) -> Audit:
        """What may be shown of the audit: itself, or without the small cells that it is to hide."""
        return self.hiding(0).suppressed(self.hidden_below) if self.hidden_below else self

    def hiding(self, below: int) -> Audit:
        """The same audit, every cell kept, that hides small cells in what is written of it; only `save` keeps them."""
        settings = {key: value for key, value in self.document["settings"].items() if key != HIDE}
        settings |= {HIDE: int(below)} if below else {}
        return replace(self, document={**self.document, "settings": settings})

    def rows_of(self, finding: Finding, data: Any) -> Array:
        """Which rows of predictions, or of a frame of any library, a finding is about, as truth values."""
        return rows_of(finding, data)

    def __repr__(self) -> str:
        return str(import_module("miscal.report.html.page").audit_text(self.shown().document))
