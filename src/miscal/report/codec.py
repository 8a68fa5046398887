"""The JSON of a report: written by `to_json`, and validated once, when it is read, by `from_json`.

The rule: no other module knows how a report is written. What is of another type than the schema says is an error that
names the key; what is absent has the default of its record (`miscal.report.model`); keys that are not known, as a later
version may have added, are ignored.

Sentences in the JSON are made from codes. Beside each stands what it was made from (`coded_notes`, `coded_note`,
`coded_reason`), which is what is read back.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from miscal import results
from miscal.codes.audit import ExclusionReason, Note, NoteCode, Reason
from miscal.data.arrays import Plain
from miscal.data.errors import refusal, refusing
from miscal.data.outputs import FileName, check_file, write_whole
from miscal.report.findings import FORMER_FORMS, Finding
from miscal.report.model import (
    AuditReport,
    CleanColumn,
    ComparisonReport,
    Excluded,
    NotTested,
    RepairReport,
    ScoreNumbers,
)
from miscal.report.result_tables import DEFAULT_LEVEL, ResultView
from miscal.report.schema import first_fault
from miscal.report.values import (
    JsonMapping,
    TableColumns,
    items,
    mapping,
    optional_number,
    text,
    texts,
    whole,
)
from miscal.report.wording import finite, showing
from miscal.words.audit import words_of

SCHEMA = "miscal.audit/1"
#: Parts that the document of an audit cannot lack, and keys without which a finding does not say which rows it has.
REQUIRED_PARTS = ("data", "settings", "score", "sections", "findings", "clean", "too_small")
FINDING_KEYS = ("where", "rows", "columns", "condition", "scope", "parent", "explained")
T = TypeVar("T")


def to_json(report: AuditReport) -> Plain:
    """The dictionary of a report, as the schema describes it."""
    document = {
        "schema": report.schema,
        "version": report.version,
        "versions": report.versions,
        "data": report.data,
        "settings": report.settings,
        "score": {**report.score.values, "details": report.score.details},
        "findings": [finding.to_dict() for finding in report.all_findings],
        "unlisted": report.unlisted,
        "notes": report.notes,
        "coded_notes": [_coded(note) for note in report.coded_notes],
        "clean": [_clean_dict(column) for column in report.clean_columns],
        "too_small": [excluded_dict(entry) for entry in report.excluded],
        "left_out": [vars(entry) for entry in report.left_out],
        "sections": {kind: [view.values for view in views] for kind, views in report.sections.items()},
    }
    if report.along_score_results is not None:
        document["along_score"] = list(report.along_score_results)
    if report.comparison is not None:
        document["comparison"] = _comparison_dict(report.comparison)
    if report.repaired is not None:
        document["repair"] = list(report.repaired.segments)
        document["repaired_by"] = report.repaired.about
    return document


def _coded(coded: Note | Reason) -> Plain:
    """A note or a reason as its code and its fields."""
    return {"code": str(coded.code), "fields": dict(coded.fields)}


def _clean_dict(column: CleanColumn) -> Plain:
    values: Plain = {
        name: getattr(column, name) for name in ("where", "value", "noise_floor", "p_value", "detectable")
    }
    if column.p_least is not None:
        values["p_least"] = column.p_least
    values["note"] = "" if column.note is None else words_of(column.note)
    if column.note is not None:
        values["coded_note"] = _coded(column.note)
    return values


def excluded_dict(entry: Excluded) -> Plain:
    """What could not be tested, as the JSON has it."""
    return {
        "where": entry.where,
        "rows": entry.rows,
        "reason": entry.reason_words,
        "coded_reason": _coded(entry.reason),
    }


def _comparison_dict(comparison: ComparisonReport) -> Plain:
    values = vars(comparison) | {"score": {name: list(pair) for name, pair in comparison.score.items()}}
    return {name: value for name, value in values.items() if name != "response" or value}


def from_json(document: object, *, complete: bool = True) -> AuditReport:
    """The report of a dictionary, validated.

    Parameters
    ----------
    document : mapping
        Plain values, as `json.loads` gives them.
    complete : bool
        Whether the parts of an audit, and what identifies each finding, must be there; otherwise what is absent has
        its default.

    Raises
    ------
    MiscalError
        Where the document is not of the schema, or a part of it is of another type than the schema says.

    Examples
    --------
    >>> score = {"schema": "miscal.audit/1", "score": {"slope": 0.9}}
    >>> from_json(score, complete=False).measure("slope").value
    0.9
    """
    given = _upgraded(checked(document))
    if complete:
        _check_complete(given)
    if fault := first_fault(given, whole=False):
        raise refusal(f"does not follow its schema: {fault}", "the document of the audit")
    settings = mapping(given.get("settings"))
    level = optional_number(settings.get("level"))
    score = mapping(given.get("score"))
    along_score = given.get("along_score")
    comparison, repaired = given.get("comparison"), given.get("repaired_by")
    return AuditReport(
        version=text(given.get("version")),
        versions=mapping(given.get("versions")),
        data=mapping(given.get("data")),
        settings=settings,
        score=ScoreNumbers(
            {name: value for name, value in score.items() if name != "details"}, mapping(score.get("details"))
        ),
        all_findings=tuple(map(Finding.from_dict, items(given.get("findings")))),
        unlisted=whole(given.get("unlisted")),
        coded_notes=_notes(items(given.get("notes")), items(given.get("coded_notes"))),
        clean_columns=tuple(map(_clean_column, items(given.get("clean")))),
        excluded=tuple(map(_excluded, items(given.get("too_small")))),
        left_out=list(map(_not_tested, items(given.get("left_out")))),
        sections=_sections(mapping(given.get("sections")), DEFAULT_LEVEL if level is None else level),
        along_score_results=None if along_score is None else tuple(along_score),
        comparison=None if comparison is None else comparison_from(comparison),
        repaired=None if repaired is None else RepairReport(repaired, items(given.get("repair"))),
        schema=SCHEMA,
    )


def checked(document: object) -> JsonMapping:
    """The document, if it is that of an audit.

    Examples
    --------
    >>> checked({"schema": "miscal.audit/1"})["schema"]
    'miscal.audit/1'
    """
    given = mapping(document)
    if given.get("schema") != SCHEMA:
        found = repr(given.get("schema")) if isinstance(document, Mapping) else type(document).__name__
        what = f"must be an audit's dictionary, of the schema '{SCHEMA}'"
        raise refusal(what, "document", got=f"found {found}")
    return given


def _check_complete(document: JsonMapping) -> None:
    """Reject a document without one of its parts, and findings that do not say which rows they are about."""
    for part in REQUIRED_PARTS:
        if not isinstance(document.get(part), (Mapping, list)):
            raise refusal("is damaged", "the document of the audit", got=f"it has no '{part}'")
    findings = [finding for finding in document["findings"] if isinstance(finding, Mapping)]
    while findings:
        finding = findings.pop()
        for key in FINDING_KEYS:
            if key not in finding:
                raise refusal("is damaged", "a finding of the audit", got=f"it has no '{key}'")
        findings += [item for item in items(finding["explained"]) if isinstance(item, Mapping)]


def _upgraded(document: JsonMapping) -> JsonMapping:
    """A document of an earlier version, as this one writes it: names of forms, and numbers with their details apart."""
    upgraded = {name: part for name, part in document.items() if part is not None}  # null is absent
    findings, score = document.get("findings"), document.get("score")
    if isinstance(findings, list):
        upgraded["findings"] = list(map(_upgraded_finding, findings))
    if isinstance(score, Mapping) and any(isinstance(number, Mapping) for number in score.values()):
        upgraded["score"] = _upgraded_score(score)
    return upgraded


def _upgraded_score(score: JsonMapping) -> Plain:
    """Numbers that were written as mappings with a value, as values and details."""
    values, details = dict(score), dict(mapping(score.get("details")))
    for name, number in score.items():
        if name != "details" and isinstance(number, Mapping) and "value" in number:
            values[name] = number["value"]
            known = {key: value for key, value in number.items() if key != "value"}
            details[name] = {**mapping(details.get(name)), **known}
    return {**values, "details": details}


def _upgraded_finding(finding: object) -> object:
    if not isinstance(finding, Mapping):
        return finding
    form, explained = finding.get("form"), finding.get("explained")
    values = dict(finding)
    if isinstance(form, str):
        values["form"] = str(FORMER_FORMS.get(form, form))
    if isinstance(explained, list):
        values["explained"] = list(map(_upgraded_finding, explained))
    return values


def _sections(sections: JsonMapping, level: float) -> dict[str, list[ResultView]]:
    return {
        str(kind): [ResultView.from_dict(values, level, str(kind)) for values in results_of_kind]
        for kind, results_of_kind in sections.items()
    }


def _notes(sentences: Sequence[str], coded: Sequence[JsonMapping]) -> tuple[Note, ...]:
    """The notes by their codes; those of a file that has none by their sentences."""
    if len(coded) == len(sentences):
        return tuple(_note(item) for item in coded)
    return tuple(Note(NoteCode.SENTENCE, {"text": sentence}) for sentence in sentences)


def _note(coded: JsonMapping) -> Note:
    with refusing("must be a note: a code and its fields", "'coded_notes'"):
        note = Note(NoteCode(coded["code"]), dict(coded["fields"]))
        words_of(note)
    return note


def _reason(sentence: str, coded: JsonMapping | None) -> Reason:
    if coded is None:
        return Reason(ExclusionReason.SENTENCE, {"text": sentence})
    with refusing("must be a reason: a code and its fields", "'coded_reason'"):
        reason = Reason(ExclusionReason(coded["code"]), dict(coded["fields"]))
        words_of(reason)
    return reason


def _clean_column(values: JsonMapping) -> CleanColumn:
    sentence, coded = text(values.get("note")), values.get("coded_note")
    note = Note(NoteCode.SENTENCE, {"text": sentence}) if sentence else None
    return CleanColumn(
        where=text(values.get("where")),
        value=finite(values.get("value")),
        noise_floor=finite(values.get("noise_floor")),
        p_value=finite(values.get("p_value")),
        detectable=finite(values.get("detectable")),
        p_least=optional_number(values.get("p_least")),
        note=note if coded is None else _note(coded),
    )


def _excluded(values: JsonMapping) -> Excluded:
    rows = values.get("rows")
    reason = _reason(text(values.get("reason")), values.get("coded_reason"))
    return Excluded(text(values.get("where")), None if rows is None else whole(rows), reason)


def _not_tested(values: JsonMapping) -> NotTested:
    return NotTested(
        what=text(values.get("what")),
        count=whole(values.get("count")),
        reason=text(values.get("reason")),
        ask=text(values.get("ask")),
        where=list(texts(values.get("where"))),
    )


def comparison_from(values: JsonMapping) -> ComparisonReport:
    """What changed since an earlier audit, from the plain values of a `Comparison`."""
    level = optional_number(values.get("level"))
    return ComparisonReport(
        paired=bool(values.get("paired")),
        cells=bool(values.get("cells", True)),
        level=DEFAULT_LEVEL if level is None else level,
        table=TableColumns(values.get("table")),
        score={name: tuple(pair) for name, pair in mapping(values.get("score")).items()},
        response=text(values.get("response")),
        **{name: list(texts(values.get(name))) for name in ("better", "worse", "new", "gone", "left_out")},
    )


def of_document(render: Callable[..., T]) -> Callable[..., T]:
    """Let a function of a report be given its dictionary too, or a part of one.

    While it runs, rates are written as what they are: percentages, or means (`wording.showing`).
    """

    @wraps(render)
    def rendered(document: object, *others: Any, **options: Any) -> T:
        report = report_from(document)
        with showing(report.response):
            return render(report, *others, **options)

    return rendered


def report_from(document: object) -> AuditReport:
    """A report as it is, or that of a dictionary, which may lack parts and hold arrays."""
    return document if isinstance(document, AuditReport) else from_json(plain(document), complete=False)


def plain(value: object) -> Any:
    """Turn a value into what JSON knows: NaN and infinities become None, arrays lists, dates text.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.array([1.0, np.nan]), 2: (np.int64(3), float("inf"))})
    {'a': [1.0, None], '2': [3, None]}
    """
    return results.plain(value, finite=True)


def dumps(document: object) -> str:
    """Write a document as JSON text.

    Lone surrogates, which no UTF-8 file can hold, are replaced.

    Examples
    --------
    >>> dumps({"p_value": float("nan")})
    '{"p_value": null}'
    """
    written = json.dumps(plain(document), ensure_ascii=False, allow_nan=False)
    return written.encode("utf-8", "replace").decode("utf-8")


def write_json(document: object, path: FileName) -> None:
    """Write a document to a file, whole or not at all."""
    write_text(path, dumps(document) + "\n")


def read_json(path: FileName) -> JsonMapping:
    """Read an audit's dictionary back, or say what is wrong with the file."""
    check_file(path)
    hint = "the JSON of an audit is what `miscal audit TABLE --json FILE` or Audit.to_json(FILE) writes"
    with refusing("cannot be read as JSON", f"'{path}'", hint=hint):
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    return checked(document)


def write_text(path: FileName, content: str) -> None:
    """Write text, whole or not at all; line ends stay as they are on every system."""
    write_whole(path, content.encode("utf-8", "replace"))
