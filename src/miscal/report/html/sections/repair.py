"""What to do: commands that correct the findings; and what recalibration did to each finding, on held-out rows."""

import shlex
from collections.abc import Sequence
from functools import partial

from miscal.report import wording
from miscal.report.html.gap_figures import gap_pairs
from miscal.report.html.markup import Child, Safe, clean, name, phrase, prose, tag
from miscal.report.html.sections.blocks import (
    TableColumn,
    columns_of,
    figure,
    folded,
    lead,
    quiet,
    section,
    sheet,
)
from miscal.report.model import AuditReport, RepairReport, SegmentRepair
from miscal.report.values import items, mapping

MOST_COLUMNS = 4
# Which are options too.
_KEPT = ("response", "exposure", "positive", "weight_column", "count_column", "cluster")
_FILES = ("--out", "repaired.parquet", "--report", "repair.html")
_signed, _four_digits = partial(wording.number, sign=True), partial(wording.number, digits=4)
_ADVICE = prose("advice")


def advice(document: AuditReport) -> Safe:
    """What to do; empty for reports of a recalibration, and where the columns of the table have no names."""
    if document.repaired is not None or not document.outcome or not document.probabilities:
        return Safe("")
    steps: list[tuple[Child, str]] = []
    if any(finding.kind == "score" for finding in document.findings):
        steps.append((_ADVICE["score"], _command("recalibrate", document, "--score-only", *_FILES)))
    chosen = _columns(document)
    if chosen:
        needs_slope = not document.response and any(
            head.score_ranges for head in document.findings if head.specific
        )
        text = [
            _ADVICE["columns"],
            name(", ".join(chosen), 240),
            ".",
            _ADVICE["slope"] if needs_slope else "",
        ]
        steps.append((text, _command("recalibrate", document, *_FILES, allowed=chosen)))
    steps = steps or [(_ADVICE["nothing"], "")]
    steps.append((_ADVICE["gate"], _command("check", document, "--no-new-findings", "report.json")))
    listed = [
        tag("li", tag("p", text), tag("pre", tag("code", line)) if line else None) for text, line in steps
    ]
    return section("advice", "What to do", tag("ol", listed, class_="steps"))


def next_step(document: AuditReport) -> str:
    """The command to run next: recalibration by the columns of the findings, or a gate if there is no finding."""
    if document.repaired is not None or not document.outcome or not document.probabilities:
        return ""
    if document.data.get("cluster_suggested"):
        return _command("audit", document, "--cluster", str(document.data["cluster_suggested"]))
    if not document.findings:
        return _command("check", document, "--max-findings", "0")
    chosen = _columns(document)
    stored = ", ".join(mapping(document.data.get("read_as")))
    first = f"store {clean(stored)} as dates and numbers, then " if stored else ""
    return first + _command("recalibrate", document, *([] if chosen else ["--score-only"]), allowed=chosen)


def _columns(document: AuditReport) -> list[str]:
    """The first columns of findings that remain after global recalibration."""
    columns = dict.fromkeys(column for head in document.findings if head.specific for column in head.columns)
    return list(columns)[:MOST_COLUMNS]


def _command(verb: str, document: AuditReport, *words: str, allowed: Sequence[str] = ()) -> str:
    """A command line for a shell, names quoted."""
    data, source = document.data, document.source
    options = {"outcome": [document.outcome]}
    options["prediction" if document.response else "probability"] = document.probabilities
    options |= {key.removesuffix("_column"): [data[key]] for key in _KEPT if data.get(key)}
    options |= {"ignore": items(data.get("ignore")), "allowed": list(allowed)}
    arguments: list[str] = []
    for option, values in options.items():
        for value in values:
            arguments += f"--{option}", str(value)
    arguments += ["--logit"] if data.get("logit") else []
    is_file = source.lower().endswith((".csv", ".parquet", ".feather", ".arrow")) and "*" not in source
    file = source if is_file else "FILE"
    return clean(shlex.join(["miscal", verb, file, *arguments, *words]))


def repair(document: AuditReport) -> Safe:
    """What recalibration did; empty where the report is not about one."""
    done = document.repaired
    if done is None:
        return Safe("")
    return section(
        "repair",
        phrase("repair", "title"),
        lead(repair_sentence(done)),
        lead(name(done.reason, 600)) if done.reason else None,
        figure(gap_pairs(done.places), prose("repair")["caption"]) if done.places else None,
        _listed(done.places),
        _scores(done),
        _candidates(done),
        quiet(prose("repair")["rest"]),
    )


def repair_sentence(done: RepairReport) -> str:
    """How many segments are resolved, improved, unchanged, worsened and new, and on which rows."""
    rows = {"fitted": wording.rows(done.fitted_rows), "rows": wording.count(done.rows)}
    counts = wording.became([segment.verdict for segment in done.places])
    return f"{counts} {phrase('repair', 'fitted', name=done.name, **rows)}"


def _listed(segments: list[SegmentRepair]) -> Safe:
    """The table of all segments before and after."""
    intervals = [wording.interval(*segment.after.interval, wording.points) for segment in segments]
    columns = [
        *columns_of(segments, "where"),
        TableColumn("Rows", [s.after.rows or s.before.rows for s in segments], wording.count),
        TableColumn("Gap before", [s.before.gap for s in segments], wording.points),
        TableColumn("Gap after", [s.after.gap for s in segments], wording.points),
        TableColumn(
            "95% CI after",
            [interval.replace(" pp", "") or wording.NOTHING for interval in intervals],
            "words",
        ),
        TableColumn("Change", [wording.RESOLUTION.get(s.verdict, s.verdict) for s in segments], "words"),
    ]
    listed = sheet("Before and after", columns, search="Search segments")
    return folded(f"All {wording.plural(len(segments), 'segment')}", listed)


def _scores(done: RepairReport) -> Safe | None:
    """The overall metrics before and after, and whether ranks change."""
    known = {label: done.score[key] for key, label in prose("repaired").items() if key in done.score}
    if not known:
        return None
    before, after = zip(*known.values(), strict=True)
    columns = [
        TableColumn("Metric", list(known), "name"),
        TableColumn("Before", before, _four_digits),
        TableColumn("After", after, _four_digits),
    ]
    change, loss = done.loss_change, "The deviance" if wording.means() else "The log loss"
    interval = wording.interval(change.low, change.high)
    sentence = phrase("repair", "loss", loss=loss, change=_signed(change.value), interval=interval)
    if not change.known:
        sentence = phrase("repair", "infinite", loss=loss)
    ranking = phrase("repair", "ranking_kept" if done.keeps_ranking else "ranking_changed")
    return tag("div", sheet("Metrics before and after", columns), quiet(f"{sentence} {ranking}"))


def _candidates(done: RepairReport) -> Safe:
    """All candidates with their loss on held-out rows."""
    table, loss = done.candidates, "deviance" if wording.means() else "log_loss"
    columns = [
        TableColumn("Candidate", table["name"], "name"),
        TableColumn(loss.replace("_", " ").capitalize(), table[loss], _four_digits),
        TableColumn("Change against no recalibration", table[f"{loss}_difference"], _signed),
        TableColumn("95% CI low", table["difference_low"], _signed),
        TableColumn("95% CI high", table["difference_high"], _signed),
        *[TableColumn(f"Error {key}", table[key], wording.error) for key in table if key.startswith("by ")][
            :6
        ],
    ]
    return folded(f"Model selection: {wording.plural(table.rows, 'candidate')}", sheet("Candidates", columns))
