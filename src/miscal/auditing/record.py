"""Audit: what was found, kept without the rows; saved, loaded, compared and rendered again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.results import Result

if TYPE_CHECKING:
    from miscal.auditing.compare import Comparison

HIDE = "hide_below"  # the setting of a saved audit: cells of fewer rows are kept, and left out of its pages


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; `document` is the JSON of the contract, from which page and text are made.

    Attributes
    ----------
    document : the dictionary of the schema ``miscal.audit/1``
    findings : those beyond noise first, each followed by the ones that it explains
    results : the results of score and columns with their carriers; empty once loaded from a file
    carriers : tallies by name
    """

    document: dict[str, Any]
    findings: list[Finding]
    results: list[Result] = field(default_factory=list)
    carriers: dict[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> dict[str, Any]:
        """The numbers by score."""
        return dict(self.document["score"])

    @property
    def clean(self) -> list[dict[str, Any]]:
        """Columns tested in which nothing was beyond noise, with the smallest gap that could have been seen."""
        return list(self.document["clean"])

    @property
    def too_small(self) -> list[dict[str, Any]]:
        """Places too small to judge, and columns set aside."""
        return list(self.document["too_small"])

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the page, whole or not at all."""
        from miscal.page.html import write_html

        write_html(self.shown().document, path)

    def to_json(self, path: str | PathLike[str]) -> None:
        """Write the JSON, whole or not at all."""
        from miscal.page.json import write_json

        write_json(self.shown().document, path)

    def to_markdown(self) -> str:
        """The audit as text."""
        from miscal.page.markdown import to_markdown

        return to_markdown(self.shown().document)

    def save(self, path: str | PathLike[str]) -> None:
        """Write dictionary and tallies to one file, whole or not at all; it holds no row."""
        from miscal.auditing.saving import save

        save(self.document, self.carriers, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Audit:
        """Read an audit that `save` wrote; it can be rendered and compared again without the data.

        The JSON of `to_json` is read too. It has no tallies: compared with it, only findings and scores are.
        """
        from miscal.auditing.saving import load
        from miscal.page.records import read_document

        document, carriers = load(path)
        return cls(document, read_document(document).findings, [], carriers)

    def compare(self, other: Audit) -> Comparison:
        """Say what got better and what got worse in `other`, a later audit: of another model, or of another period.

        On the same rows (the same outcomes in the same order) the comparison is paired; otherwise gaps are compared as
        those of independent rows. Cells are matched by name; ranges must have been cut at the same edges.
        """
        from miscal.auditing.compare import compare

        return compare(self, other)

    def with_comparison(self, before: Audit) -> Audit:
        """The same audit with what changed since an earlier one, for the page and the JSON."""
        return replace(self, document={**self.document, "comparison": before.compare(self).to_dict()})

    def suppressed(self, below: int) -> Audit:
        """The same audit without the numbers of cells of fewer than `below` rows; carriers are left out."""
        from miscal.auditing.suppress import suppressed

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

    def rows_of(self, finding: Finding, data: Any) -> np.ndarray:
        """Which rows of predictions, or of a frame of any library, a finding is about, as truth values."""
        from miscal.auditing.rows_of_finding import rows_of

        return rows_of(finding, data)

    def __repr__(self) -> str:
        return self.to_markdown()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()
