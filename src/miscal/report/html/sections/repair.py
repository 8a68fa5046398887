"""What to do: the commands that mend what was found; and what a repair made of every finding, on unseen rows."""

import shlex
from collections.abc import Sequence
from functools import partial

from miscal.report import wording
from miscal.report.html.gap_figures import gap_pairs
from miscal.report.html.markup import Child, Safe, clean, name, prose, tag
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
    """What to do; empty where the page is about a repair already, or the table's columns have no names."""
    if document.repaired is not None or not document.outcome or not document.probabilities:
        return Safe("")
    steps: list[tuple[Child, str]] = []
    if any(finding.kind == "score" for finding in document.findings):
        steps.append((_ADVICE["score"], _command("recalibrate", document, "--score-only", *_FILES)))
    chosen = _columns(document)
    if chosen:
        bent = not document.response and any(head.score_ranges for head in document.findings if head.specific)
        text = [_ADVICE["columns"], name(", ".join(chosen), 240), ".", _ADVICE["slope"] if bent else ""]
        steps.append((text, _command("recalibrate", document, *_FILES, allowed=chosen)))
    steps = steps or [(_ADVICE["nothing"], "")]
    steps.append((_ADVICE["gate"], _command("check", document, "--no-new-findings", "report.json")))
    listed = [
        tag("li", tag("p", text), tag("pre", tag("code", line)) if line else None) for text, line in steps
    ]
    return section("advice", "What to do", tag("ol", listed, class_="steps"))


def next_step(document: AuditReport) -> str:
    """The one command to run next: the repair that the findings ask for, or the gate where there are none."""
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
    """The columns that define what the score alone cannot mend, the first of them."""
    columns = dict.fromkeys(column for head in document.findings if head.specific for column in head.columns)
    return list(columns)[:MOST_COLUMNS]


def _command(verb: str, document: AuditReport, *words: str, allowed: Sequence[str] = ()) -> str:
    """A command line that a shell takes as it stands; names are quoted."""
    data, source = document.data, document.source
    options = {"outcome": [document.outcome]}
    options["prediction" if document.response else "probability"] = document.probabilities
    options |= {key.removesuffix("_column"): [data[key]] for key in _KEPT if data.get(key)}
    options |= {"ignore": items(data.get("ignore")), "allowed": list(allowed)}
    given: list[str] = []
    for option, every in options.items():
        for value in every:
            given += f"--{option}", str(value)
    given += ["--logit"] if data.get("logit") else []
    one = source.lower().endswith((".csv", ".parquet", ".feather", ".arrow")) and "*" not in source
    file = source if one else "FILE"
    return clean(shlex.join(["miscal", verb, file, *given, *words]))


def repair(document: AuditReport) -> Safe:
    """What a repair did; empty when the document holds none."""
    done = document.repaired
    if done is None:
        return Safe("")
    return section(
        "repair",
        "Before and after the repair",
        lead(repair_sentence(done)),
        lead(name(done.reason, 600)) if done.reason else None,
        figure(gap_pairs(done.places), prose("repair")["caption"]) if done.places else None,
        _listed(done.places),
        _scores(done),
        _candidates(done),
        quiet(prose("repair")["rest"]),
    )


def repair_sentence(done: RepairReport) -> str:
    """How many places are gone, smaller, remaining, larger and new, and on which rows that was judged."""
    fitted = f"{done.name} was fitted on {wording.rows(done.fitted_rows)}"
    judged = f"judged on {wording.count(done.rows)} others."
    return f"{wording.became([place.verdict for place in done.places])} {fitted} and {judged}"


def _listed(places: list[SegmentRepair]) -> Safe:
    intervals = [wording.interval(*place.after.interval, wording.points) for place in places]
    columns = [
        *columns_of(places, "where"),
        TableColumn("Rows", [place.after.rows or place.before.rows for place in places], wording.count),
        TableColumn("Gap before", [place.before.gap for place in places], wording.points),
        TableColumn("Gap after", [place.after.gap for place in places], wording.points),
        TableColumn(
            "Interval after", [each.replace(" points", "") or wording.NOTHING for each in intervals], "words"
        ),
        TableColumn("Verdict", [place.verdict for place in places], "words"),
    ]
    listed = sheet("Before and after", columns, search="Search places")
    return folded(f"All {wording.plural(len(places), 'place')}", listed)


def _scores(done: RepairReport) -> Safe | None:
    known = {label: done.score[key] for key, label in prose("repaired").items() if key in done.score}
    if not known:
        return None
    before, after = zip(*known.values(), strict=True)
    columns = [
        TableColumn("All rows", list(known), "name"),
        TableColumn("Before", before, _four_digits),
        TableColumn("After", after, _four_digits),
    ]
    change, loss = done.loss_change, "The deviance" if wording.means() else "The logarithmic loss"
    text = f"{loss} changes by {_signed(change.value)} ({wording.interval(change.low, change.high)})."
    if not change.known:
        text = f"{loss} is infinite where the table has none: something that was ruled out happened."
    ranking = "The ranking of rows is kept." if done.keeps_ranking else "The ranking of rows changes."
    return tag("div", sheet("The score before and after", columns), quiet(f"{text} {ranking}"))


def _candidates(done: RepairReport) -> Safe:
    """Every candidate with what it cost on rows it had not seen."""
    table, loss = done.candidates, "deviance" if wording.means() else "log_loss"
    columns = [
        TableColumn("Candidate", table["name"], "name"),
        TableColumn(loss.replace("_", " ").capitalize(), table[loss], _four_digits),
        TableColumn("Against doing nothing", table[f"{loss}_difference"], _signed),
        TableColumn("at best", table["difference_low"], _signed),
        TableColumn("at worst", table["difference_high"], _signed),
        *[TableColumn(f"Error {key}", table[key], wording.percent) for key in table if key.startswith("by ")][
            :6
        ],
    ]
    return folded(
        f"How it was chosen: {wording.plural(table.rows, 'candidate')}", sheet("Candidates", columns)
    )
