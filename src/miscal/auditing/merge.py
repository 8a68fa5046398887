"""Audits of parts as one: what adds is added, the rest stays as it was, with the part's name before it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import miscal
from miscal.auditing.clustered import clustered
from miscal.auditing.document import SCHEMA
from miscal.auditing.findings import Finding
from miscal.auditing.periods import KIND, PREFIX, period_result
from miscal.carriers.tally import Tally
from miscal.data.errors import MiscalError, refusal
from miscal.metrics.from_sums import field_from_sums, variable_from_sums
from miscal.metrics.pooled import Noise, pooled_of
from miscal.results import Result

TWO_SIDED = 1.959963984540054
ADDED = ("score", "variable", "field")


def merge(parts: Mapping[str, Any]) -> Any:
    """One audit of several parts, by name; they must have no rows in common.

    Sections whose tallies have the same cells in every part are added and judged anew: fields and periods always, by
    the names of their levels, so that June and July become two months that are compared; score
    and variables where they were cut at the same edges. All others (curves, subpopulations, neighbourhoods) are kept by
    part and labelled, as are the findings, whose p-values are multiplied by the number of parts. Where rows
    come in clusters every section is kept by part, because tallies know no clusters.
    """
    audits = _checked(parts)
    first = audits[next(iter(audits))].document
    seed = int(first["settings"].get("random_state") or 0)
    noise = Noise("bernoulli", "Noise of outcomes drawn from the predictions.")
    if _null(audits) == "residual":
        noise = Noise("residual", "Sign-flip null.")
    carriers = _added({label: audit.carriers for label, audit in audits.items()})
    results = [made for name, tally in carriers.items() if (made := _result(name, tally, noise, first, seed))]
    if any(map(clustered, audits.values())):
        results = []  # tallies know no clusters, so nothing can be judged anew
    kept = {(result.kind, str(result.settings.get("column", ""))) for result in results}
    sections: dict[str, list[Any]] = {kind: [] for kind in ADDED}
    for result in results:
        sections.setdefault(result.kind, []).append(_noted(result.to_dict(), audits))
    for label, audit in audits.items():
        for kind, entries in audit.document["sections"].items():
            sections.setdefault(kind, [])
            sections[kind] += [
                _labelled(entry, label)
                for entry in entries
                if (kind, str(entry["settings"].get("column", ""))) not in kept
            ]
    findings = _findings(audits, float(first["settings"]["level"]))
    rows = {label: int(audit.document["data"]["rows"]) for label, audit in audits.items()}
    document = {
        "schema": SCHEMA,
        "version": miscal.__version__,
        "versions": first.get("versions", {}),
        "data": {**first["data"], "source": " + ".join(audits), "rows": sum(rows.values()), "parts": rows},
        "settings": {**first["settings"], "merged": "sections with equal cells are added, the others kept by part"},
        "score": _score(audits, results),
        "findings": [finding.to_dict() for finding in findings],
        "clean": _clean(results, findings, float(first["settings"]["level"])),
        "too_small": [
            {**entry, "where": f"{label}: {entry['where']}"} for label, a in audits.items() for entry in a.too_small
        ],
        "sections": sections,
    }
    for name in ("fingerprint", "rows_fingerprint"):
        document["data"].pop(name, None)
    made = type(next(iter(audits.values())))(document, findings, results, carriers)
    return made.hiding(max(audit.hidden_below for audit in audits.values()))


def _checked(parts: Mapping[str, Any]) -> dict[str, Any]:
    audits = {str(label): audit for label, audit in parts.items()}
    if len(audits) < 2:
        raise refusal("needs at least two audits", where="merge", got=f"got {len(audits)}")
    for label, audit in audits.items():
        if not audit.carriers:
            raise refusal("keeps no tallies to add", where=f"'{label}'", hint="save audits with .save, not as JSON")
    prints: dict[str, str] = {}
    for label, audit in audits.items():
        own = audit.document["data"].get("fingerprint")
        if own is not None and prints.setdefault(own, label) != label:
            raise refusal(
                "must have no rows in common", where="the audits", got=f"'{prints[own]}' and '{label}' are the same"
            )
    _same_question(audits)
    return audits


def _same_question(audits: Mapping[str, Any]) -> None:
    """Refuse audits of other outcomes or probabilities: their sums would be those of two models taken for one."""
    seen = {(a.document["data"].get("outcome"), str(a.document["settings"].get("target"))) for a in audits.values()}
    if len(seen) > 1:
        raise refusal(
            "must be about the same outcome", where="the audits", got=f"they are about {sorted(map(str, seen))}"
        )
    judged = [(label, audit.document["data"].get("probability")) for label, audit in audits.items()]
    other = next((pair for pair in judged if pair[1] != judged[0][1]), None)
    if other is not None:
        raise refusal(
            "must be about the same probability column", where="the audits to merge",
            got=f"'{judged[0][0]}' is about '{judged[0][1]}' and '{other[0]}' about '{other[1]}'",
            hint="compare two models with before.compare(after) or --baseline; rename the column if it is one model",
        )  # fmt: skip


def _null(audits: Mapping[str, Any]) -> str:
    nulls = {entry["settings"].get("null") for a in audits.values() for entry in a.document["sections"]["score"]}
    return "residual" if "residual" in nulls else "bernoulli"


def _added(parts: Mapping[str, Mapping[str, Tally]]) -> dict[str, Tally]:
    """The tallies that every part has with cells that add."""
    every = list(parts.values())
    made: dict[str, Tally] = {}
    for name in every[0]:
        if all(name in carriers for carriers in every):
            total = every[0][name]
            try:
                for carriers in every[1:]:
                    total = total + carriers[name]
            except MiscalError:  # cut at other edges: kept by part
                continue
            made[name] = total
    return made


def _result(name: str, tally: Tally, noise: Noise, first: Mapping[str, Any], seed: int) -> Result | None:
    """The result of an added tally; classes beside the first target stay by part."""
    kind, _, column = name.partition(":")
    target = str(first["settings"].get("target", "auto"))
    if kind.startswith(PREFIX):
        level = float(first["settings"]["level"])
        found = pooled_of(tally, noise, random_state=seed, level=level)
        return period_result(found, column, kind.removeprefix(PREFIX), level=level, random_state=seed)
    if kind == "field":
        return field_from_sums(column, tally, noise, target=target, random_state=seed)
    if kind == "variable":
        of: Mapping[str, Any] = next(
            (r["extra"] for r in first["sections"]["variable"] if r["settings"].get("column") == column), {}
        )
        extra = {name: of.get(name) for name in ("column_kind", "integer")}
        return variable_from_sums(column, tally, None, noise, target=target, random_state=seed, extra=extra)
    if kind != "score":
        return None
    found = pooled_of(tally, noise, random_state=seed)
    settings = {"target": target, "null": noise.null, "bins_used": found.table.rows, "random_state": seed}
    numbers = (found.summary.value, found.summary.noise_floor, found.summary.p_value, found.summary.interval)
    return Result("Calibration by score", "score", *numbers, noise.reason, found.table, settings, {"tally": tally})


def _noted(entry: dict[str, Any], audits: Mapping[str, Any]) -> dict[str, Any]:
    """Periods with what a part says of rows that err together: adding them up does not make them independent."""
    notes = [r["extra"].get("note") for a in audits.values() for r in a.document["sections"].get(entry["kind"], [])]
    note = next((note for note in notes if note), "") if entry["kind"] == KIND else ""
    return {**entry, "extra": {**entry["extra"], "note": note}} if note else entry


def _labelled(entry: Mapping[str, Any], label: str) -> dict[str, Any]:
    made = copy.deepcopy(dict(entry))
    made["name"] = f"{label}: {made.get('name', '')}"
    made["settings"] = {**made["settings"], "part": label}
    column = made["settings"].get("column")
    if isinstance(column, str):
        made["settings"]["column"] = made["extra"]["column"] = f"{label}: {column}"
    return made


def _findings(audits: Mapping[str, Any], level: float) -> list[Finding]:
    """The findings of every part with its name, the strongest parts' heads first."""
    heads: list[tuple[float, list[Finding]]] = []
    for label, audit in audits.items():
        for finding in audit.findings:
            p_value = min(1.0, finding.p_value * len(audits))
            real = bool(finding.real and p_value <= level)
            parent = f"{label}: {finding.parent}" if finding.parent else None
            made = replace(finding, where=f"{label}: {finding.where}", parent=parent, p_value=p_value, real=real)
            if parent and heads:
                heads[-1][1].append(made)
            else:
                heads.append((made.at_least if real else -1.0, [made]))
    heads.sort(key=lambda entry: -entry[0])
    return [finding for _, family in heads for finding in family]


def _clean(results: list[Result], findings: list[Finding], level: float) -> list[dict[str, Any]]:
    guilty = {name for finding in findings if finding.real for name in finding.columns}
    columns = [result for result in results if result.kind not in ("score", KIND)]
    return [
        {"where": str(r.settings["column"]), "value": r.value, "noise_floor": r.noise_floor, "p_value": r.p_value}
        for r in columns
        if str(r.settings["column"]) not in guilty and not r.p_value * len(columns) <= level
    ]


def _reach(audit: Any, null: str) -> float:
    """Half the interval of a part's predicted less observed sum; of clusters it is known from the part's own alone."""
    tally = audit.carriers["score"]
    if clustered(audit):
        low, high = audit.document["score"]["details"]["gap"]["interval"]
        return float(high - low) / 2 * float(tally.weight.sum())
    return TWO_SIDED * math.sqrt(float((tally.residual2 if null == "residual" else tally.variance).sum()))


def _score(audits: Mapping[str, Any], results: list[Result]) -> dict[str, Any]:
    """The averages over all parts, and the error along the score where the bins were the same."""
    tallies = [audit.carriers["score"] for audit in audits.values()]
    weight, predicted, observed = (
        sum(float(getattr(t, word).sum()) for t in tallies) for word in ("weight", "predicted", "observed")
    )
    gap = (predicted - observed) / weight
    reach = math.hypot(*(_reach(audit, _null(audits)) for audit in audits.values())) / weight
    made: dict[str, Any] = {
        "predicted": predicted / weight,
        "observed": observed / weight,
        "gap": gap,
        "details": {"gap": {"interval": [gap - reach, gap + reach]}},
    }
    for result in results:
        if result.kind == "score":
            made["expected"] = result.value
            made["details"]["expected"] = {
                "noise_floor": result.noise_floor, "p_value": result.p_value, "interval": list(result.interval),
            }  # fmt: skip
    return made
