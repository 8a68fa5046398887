"""Thresholds that an audit must keep, for a pipeline: read from TOML or flags, one line a failure.

Of a finding that an earlier audit did not have: is it a change, or may it have been there, too small to be seen? Where
both audits keep the cells of its column, their gaps are compared. Elsewhere the earlier audit says only that it was not
beyond noise: the most that this leaves room for is taken for what was there.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from miscal.auditing.same_finding import in_earlier_audit
from miscal.cells.condition import Condition
from miscal.cells.partitions import level_of
from miscal.data.arrays import Plain
from miscal.data.errors import check_named, nearest, refusal, refusing, visible
from miscal.data.outputs import check_file
from miscal.report import wording
from miscal.report.codec import of_document, report_from
from miscal.report.findings import Finding
from miscal.report.model import AuditReport
from miscal.report.values import JsonMapping, floats, whole
from miscal.stats.comparison import exceeds_undetected, gap_changed
from miscal.stats.multiplicity import adjusted_z

FILES = ("miscal.toml", "pyproject.toml")
LIMITS = {
    "expected": "the average error along the score",
    "kuiper": "the Kuiper range along the score",
    "gap": "the gap over all rows",
}  # errors between probabilities, which are at most 1
GATE_TYPES: dict[str, tuple[Any, str]] = {
    "max_field": (Mapping, "a table such as {state = 0.02}"),
    "ignore": ((list, tuple), 'a list such as ["MC301"]'),
    "no_new_findings": (str, "the path of a baseline"),
}  # gates that are not numbers


@dataclass(frozen=True)
class Gates:
    """What is asked of an audit; None asks nothing.

    Attributes
    ----------
    max_multicalibration_sigma : largest error of any subpopulation, in standard deviations of its noise
    max_expected : expected calibration error along the score
    max_kuiper : Kuiper's calibration error
    max_gap : |mean predicted - mean observed| over all rows
    max_field : column -> largest calibration error over the levels of a column (or the ranges of a variable)
    max_ratio_off : by how much O/E, observed over expected, over all rows may differ from 1
    max_findings : findings beyond noise that no other explains
    no_new_findings : whether findings that a baseline does not have fail
    ignore : codes (MC301) or places that never fail
    """

    max_multicalibration_sigma: float | None = None
    max_expected: float | None = None
    max_kuiper: float | None = None
    max_gap: float | None = None
    max_ratio_off: float | None = None
    max_field: Mapping[str, float] = field(default_factory=dict)
    max_findings: int | None = None
    no_new_findings: str | None = None
    ignore: tuple[str, ...] = ()


GATES = {item.name: item.name.replace("_", "-") for item in fields(Gates)}  # as a file has them


@dataclass(frozen=True)
class Outcome:
    """One gate: its name, whether it held, and the line that says so."""

    name: str
    passed: bool
    line: str

    def __post_init__(self) -> None:
        self.__dict__.update(name=visible(self.name), line=visible(self.line))


def gates_of(given: JsonMapping, where: str, path: Path | None = None, most: float = 1.0) -> Gates:
    """The gates of a file, and over them those given, which `where` says how to call."""
    asked = {key: gate_value(key, value, where.format(GATES[key], key), most) for key, value in given.items()}
    known = read_gates(path, most)
    if "max_field" in asked:
        asked["max_field"] = known.get("max_field", {}) | asked["max_field"]
    gates = Gates(**(known | asked))
    if gates == Gates():
        raise refusal(
            "has no gate to check", "check", hint="give max-expected, max-field, ... or miscal.toml"
        )
    return gates


def read_gates(path: Path | None, most: float = 1.0) -> Plain:
    """The gates of a TOML file: of `miscal.toml`, or of the table tool.miscal of `pyproject.toml`.

    Without a path both names are looked for where one is; nothing found is no gates.

    most : the largest error that could fail: 1 between probabilities, infinite for other means
    """
    for candidate in [path] if path else filter(Path.is_file, map(Path, FILES)):
        check_file(candidate)
        with refusing("cannot be read as TOML", f"'{candidate}'"):
            content = tomllib.loads(candidate.read_text(encoding="utf-8"))
        if candidate.name == "pyproject.toml" or "tool" in content:
            with refusing("must hold tables in 'tool'", f"'{candidate}'"):
                content = dict(content.get("tool", {}).get("miscal", {}))
        made = {}
        for name, value in content.items():
            key = name.replace("-", "_")
            if key not in GATES:
                raise refusal(f"has no gate '{name}'", f"'{candidate}'", hint=nearest(name, GATES.values()))
            made[key] = gate_value(key, value, f"'{candidate}': {name}", most)
        if made:
            return made
    return {}


def gate_value(key: str, value: Any, where: str, most: float) -> Any:
    """The value of one gate, checked: of a file or of an option."""
    kind, words = GATE_TYPES.get(key, (object, ""))
    if not isinstance(value, kind):
        raise refusal(f"must be {words}", where, got=f"it is {value!r}")
    if key == "max_field":
        return {str(column): _number(limit, f"{where} {column}", most) for column, limit in value.items()}
    if key in GATE_TYPES:
        return value if isinstance(value, str) else tuple(map(str, value))
    return _number(value, where, most if key.removeprefix("max_") in LIMITS else math.inf)


def _number(value: Any, where: str, most: float) -> float:
    """A limit; one of an error between probabilities that is above 1 would hold whatever the model does."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (known and 0 <= value < math.inf):
        raise refusal("must be a number that is not negative", where, got=f"it is {value!r}")
    if value > most:
        hint = f"percent? {value:g}% is {value / 100:g}"
        what, got = "must be at most 1, or nothing could fail it", f"it is {value:g}"
        raise refusal(what, where, got=got, hint=hint)
    return float(value)


@of_document
def judge(
    audit: AuditReport,
    gates: Gates,
    baseline: object = None,
    shown: object = None,
) -> list[Outcome]:
    """Every gate that was asked for, with a line on how it went; places that are not in `shown` stay unnamed.

    shown : the document without what is hidden; by default everything may be named
    """
    named = audit if shown is None else report_from(shown)
    outcomes = [
        _limit(f"max-{key}", label, abs(audit.measure(key).value), limit)
        for key, label in LIMITS.items()
        if (limit := getattr(gates, f"max_{key}")) is not None
    ]
    if gates.max_ratio_off is not None:
        outcomes.append(_observed_over_expected(audit, gates.max_ratio_off))
    if (limit := gates.max_multicalibration_sigma) is not None:
        outcomes.append(_multicalibration(audit, limit, named))
    errors = {str(result.settings.get("column")): result.value for result in audit.columns}
    check_named(gates.max_field, errors, "the audit")
    for name, limit in gates.max_field.items():
        outcomes.append(_limit(f"max-field {name}", f"the average error over {name}", errors[name], limit))
    heads = [head for head in audit.findings if not {head.code, head.where}.intersection(gates.ignore)]
    if gates.max_findings is not None:
        text = f"{wording.plural(len(heads), 'finding')} beyond noise, at most {gates.max_findings:g} allowed"
        outcomes.append(Outcome("max-findings", len(heads) <= gates.max_findings, text))
    if baseline is not None:
        outcomes += _new(heads, audit, report_from(baseline), named)
    return outcomes


def _limit(name: str, label: str, value: float, limit: float) -> Outcome:
    text = f"{label} is {wording.percent(value)}, at most {wording.percent(limit)} allowed"
    return Outcome(name, value <= limit, text)


def _observed_over_expected(audit: AuditReport, limit: float) -> Outcome:
    """Whether O/E (of claims A/E) over all rows is near enough to 1."""
    predicted, observed, _ = audit.averages
    ratio = observed / predicted if predicted > 0.0 else math.nan
    line = f"O/E, observed over expected, over all rows is {wording.number(ratio)}, at most {limit:g} off 1 allowed"
    return Outcome("max-ratio-off", abs(ratio - 1.0) <= limit, line)


def _multicalibration(audit: AuditReport, limit: float, shown: AuditReport) -> Outcome:
    name = "max-multicalibration-sigma"
    searched = audit.of("subpopulation")
    if not searched:
        return Outcome(name, False, "no subpopulations were searched; use --effort normal or deep")
    table = searched[0].table  # largest deviation first
    value = float(np.nanmax(floats(table["deviations"]), initial=0.0))
    label = str(next(iter(table["label"]), None))
    where = _named_unless_hidden(label, shown.of("subpopulation")[0].table["rows"][:1] == [None], shown)
    text = (
        f"the worst subpopulation ({where}) is {value:.3g} standard deviations off, at most {limit:g} allowed"
    )
    return Outcome(name, value <= limit, text)


def _new(
    heads: list[Finding], audit: AuditReport, baseline: AuditReport, shown: AuditReport
) -> list[Outcome]:
    name = "no-new-findings"
    # Of smaller places the baseline does not say.
    least = wording.finite(baseline.settings.get("suppress_below"))
    old = baseline.real
    unknown = [
        head
        for head in heads
        if not (head.rows < least or in_earlier_audit(head, old, audit.rows, baseline.rows))
    ]
    fresh = [head for head in unknown if not may_be_unchanged(head, audit, baseline)]
    if not fresh:
        others = wording.plural(len(unknown), "other is", "others are")
        seen = f"; {others} within noise of it" if unknown else ""
        return [Outcome(name, True, f"no finding that the baseline does not have{seen}")]
    named = {finding.where for finding in shown.real}
    return [
        Outcome(
            name, False, f"new {each.code}: {_named_unless_hidden(str(each), each.where not in named, shown)}"
        )
        for each in fresh
    ]


def _named_unless_hidden(text: str, hidden: bool, shown: AuditReport) -> str:
    """The words of a segment, unless it is hidden in what is shown."""
    below = shown.settings.get("suppress_below")
    return (
        f"a segment of fewer than {below} rows, or one from which such would follow"
        if below and hidden
        else text
    )


def junit(outcomes: list[Outcome]) -> str:
    """The outcomes as JUnit's XML, which most pipelines show."""
    failed = sum(not outcome.passed for outcome in outcomes)
    root = ElementTree.Element(
        "testsuite", name="miscal", tests=str(len(outcomes)), failures=str(failed), errors="0"
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(root, "testcase", classname="miscal", name=outcome.name)
        if not outcome.passed:
            ElementTree.SubElement(case, "failure", message=outcome.line)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def annotation(outcome: Outcome, path: str) -> str:
    """A failure as a workflow command, shown beside the change in review.

    >>> annotation(Outcome("max-gap", False, "the gap is 5%, at most 1% allowed"), "data.csv")
    '::error file=data.csv,title=miscal max-gap::the gap is 5%25, at most 1%25 allowed'
    """
    marks = str.maketrans({"%": "%25", ",": "%2C", ":": "%3A"})
    title, file = (visible(text).translate(marks) for text in (f"miscal {outcome.name}", path))
    return f"::error file={file},title={title}::{outcome.line.replace('%', '%25')}"


def may_be_unchanged(finding: Finding, after: AuditReport, before: AuditReport) -> bool:
    """Whether a finding of one audit may have been there in an earlier one that did not list it."""
    if len(finding.condition) == 1 and not finding.score_ranges:
        one, two = (_gap(document, finding.condition[0]) for document in (before, after))
        if one is not None and two is not None:
            return not gap_changed(one, two)
    ratio = math.sqrt(after.rows / max(before.rows, 1.0))  # noise of the earlier audit, in that of the later
    if finding.score_ranges and not finding.response:  # off in the two ranges of its scores together
        off = sum(abs(one.events_off) for one in finding.score_ranges)
        variance = sum(one.rows * one.observed * (1.0 - one.observed) for one in finding.score_ranges)
        noise = math.sqrt(max(variance, 0.0))
    else:
        low, high = finding.interval
        off, noise = abs(finding.gap), (high - low) / (2.0 * _reach(after))
    return not exceeds_undetected(off, noise, _reach(before), ratio)


def _reach(document: AuditReport) -> float:
    """The standard errors beyond which an audit, with all of its tests, calls a place off."""
    return float(adjusted_z(max(whole(document.settings.get("tests")), 1), document.level))


def _gap(document: AuditReport, condition: Plain) -> tuple[float, float] | None:
    """The gap of the cells of a column that a condition picks, and its standard error; None where that is not kept."""
    found = next((one for one in document.columns if one.settings.get("column") == condition["column"]), None)
    if found is None:
        return None
    table, one = found.table, Condition.from_dict(condition)
    if one.ranged:
        # By the middle of each range.
        inside = one.numbers(0.5 * (floats(table["low"]) + floats(table["high"])))
    else:
        inside = one.slots(map(level_of, map(str, table["label"])))
    weight, gap, error = (floats(table[name])[inside] for name in ("weight", "gap", "error"))
    if not inside.any() or np.isnan(weight + error).any():
        return None
    total = weight.sum()
    off, noise = np.sum(weight * np.nan_to_num(gap)), np.sum((weight * error) ** 2)
    return float(off / total), float(np.sqrt(noise) / total)
