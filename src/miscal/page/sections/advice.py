"""What to do: the commands that mend what was found, and the one that keeps it mended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from miscal.page.markup import Safe, clean, name, tag
from miscal.page.reading import Document, items, mapping
from miscal.page.verdict import real_findings

MOST_COLUMNS = 4


def advice(document: Document) -> Safe:
    """The section; empty where the page is about a repair already, or the table's columns have no names."""
    data = mapping(document.get("data"))
    if "repaired_by" in document or data.get("outcome") is None or data.get("probability") is None:
        return Safe("")
    heads = real_findings(document)
    steps = [*_general(heads, data), *_specific(heads, data)]
    if not steps:
        steps = [("Nothing is off beyond noise on these rows: there is nothing to mend.", "")]
    steps.append(
        (
            "In a pipeline, fail when anything new goes wrong (report.json: what this audit writes with --json):",
            _command("check", data, "--no-new-findings", "report.json"),
        )
    )
    listed = [
        tag("li", tag("p", text), tag("pre", tag("code", command)) if command else None) for text, command in steps
    ]
    return tag("section", tag("h2", "What to do"), tag("ol", listed, class_="steps"), id="advice")


def _general(heads: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> list[tuple[Any, str]]:
    if not any(f.get("kind") == "score" for f in heads):
        return []
    text = (
        "Put the score right. One map of the score alone mends the general error; it is judged on rows it has not seen."
    )
    return [(text, _repair(data, "--score-only"))]


def _specific(heads: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> list[tuple[Any, str]]:
    columns = list(dict.fromkeys(str(c) for f in heads if f.get("specific") for c in items(f.get("columns"))))
    if not columns:
        return []
    chosen = columns[:MOST_COLUMNS]
    shown = [part for column in chosen for part in (name(column, 60), ", ")][:-1]
    text = ["Let the repair see ", *shown, ": places that the score alone cannot mend are defined by them."]
    return [(text, _repair(data, *[word for column in chosen for word in ("--allowed", column)]))]


def _repair(data: Mapping[str, Any], *words: str) -> str:
    return _command("recalibrate", data, *words, "--out", "repaired.parquet", "--page", "repair.html")


def _command(verb: str, data: Mapping[str, Any], *words: str) -> str:
    """A command line that a shell takes as it stands; names are quoted."""
    options = ["--outcome", str(data["outcome"])]
    for column in items(data.get("probability_columns")) or items(data["probability"]) or [data["probability"]]:
        options += ["--probability", str(column)]
    kept = (
        ("--positive", "positive"),
        ("--weight", "weight_column"),
        ("--count", "count_column"),
        ("--cluster", "cluster"),
    )
    for option, key in kept:
        options += [option, str(data[key])] if data.get(key) else []
    options += ["--logit"] if data.get("logit") else []
    options += [word for column in items(data.get("ignore")) for word in ("--ignore", str(column))]
    source = str(data.get("source") or "FILE")
    file = source if source.lower().endswith((".csv", ".parquet", ".feather", ".arrow")) else "FILE"
    return clean(shlex.join(["miscal", verb, file, *options, *words]))
