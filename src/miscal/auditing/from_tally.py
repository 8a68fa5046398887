"""Audits of files that keep sums in the place of rows, and how such a file is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from miscal.auditing.all_rows import cuts_like, cuts_of, look_at_sums, no_rows, summarise
from miscal.auditing.audit import Seen, Wanted
from miscal.auditing.column_choice import MAX_LEVELS, chosen_columns
from miscal.auditing.search.looking import shown_edges
from miscal.auditing.search.parts import fine_part
from miscal.carriers.summary import Summary
from miscal.data.errors import check_named, refusal
from miscal.engines.gathering import gather, rows_that_fit
from miscal.engines.roles import Roles
from miscal.engines.source import opened
from miscal.metrics.score.binned import score_bins
from miscal.pairs import pair

DEFAULT = "1GB"
SCORE_BINS = 15
SAMPLED = 200_000  # rows that edges are chosen on


def look_at_tally(path: Path, wanted: Wanted, options: Mapping[str, Any]) -> Seen:
    """Look at a file of sums."""
    if wanted.time is not None:
        raise refusal(
            "needs the rows", where="'time'", got=f"'{path.name}' keeps sums whose periods are not all known",
            hint="audit the table itself with it",
        )  # fmt: skip
    summary = Summary.load(path)
    _check(summary, path.name, options)
    looked = look_at_sums(summary, no_rows(summary), wanted.random_state)
    about = {word: summary.about[word] for word in ("outcome", "probability", "weight_column")}
    about |= {"rows": summary.rows, "fingerprint": summary.fingerprint}
    settings = {"effort": "quick", "target": str(summary.about["target"]), "tables": summary.parts}
    return Seen([looked], about, [{**entry, "rows": summary.rows} for entry in summary.aside], settings)


def _check(summary: Summary, name: str, options: Mapping[str, Any]) -> None:
    """Refuse what a file of sums cannot follow any more, rather than leave it out of the audit unsaid."""
    for word, value in options.items():
        if word in ("outcome", "probability"):
            kept = summary.about.get(word)
            if value is not None and kept is not None and _listed(value) != _listed(kept):
                got = f"{_listed(value)} was asked for"
                raise refusal(f"is {_listed(kept)} in '{name}'", where=f"'{word}'", got=got)
        elif value:
            raise refusal(
                "is settled when a tally is made", where=f"'{word}'", got=f"'{name}' keeps sums, not rows",
                hint="leave it out here, and give it to `miscal tally`, or audit the table itself",
            )  # fmt: skip


def _listed(names: Any) -> str:
    return f"'{names if isinstance(names, str) else ', '.join(map(str, names))}'"


def tally_of(
    data: Any,
    roles: Roles,
    *,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    target: str | int = "auto",
    like: Summary | None = None,
    memory: Any = None,
    max_levels: int = MAX_LEVELS,
) -> Summary:
    """All that an audit needs of a table, without its rows; with the edges of another summary if given."""
    source = opened(data, memory or DEFAULT)
    known = [name for name in source.kinds if name not in roles.names]
    check_named([*(by or ()), *ignore], known, "the data", known)
    wanted = list(by) if by else None if like is None else [*like.variables, *like.fields]
    kept = [name for name in (wanted or known) if name not in ignore]
    limit = min(rows_that_fit(memory or DEFAULT, source.kinds), SAMPLED)
    rows = gather(source, roles, kept, limit=limit, target=target, scores=True)
    compared = pair(rows.predictions, target)
    columns, aside = chosen_columns(rows.predictions, wanted, ignore, max_levels)
    if like is None:
        score_edges = score_bins(compared, SCORE_BINS, "quantile").cells.edges
        cuts = []
        for column in columns:
            shown = None if column.nominal else shown_edges(column, compared)
            cuts.append(cuts_of(column, shown, fine_part(column, compared.weight, compared.count).edges))
    else:
        score_edges = like.score.cells.edges  # type: ignore[attr-defined]
        cuts = [cuts_like(column.name, like) for column in columns]
    about = {
        "outcome": roles.outcome, "probability": ", ".join(map(str, roles.probabilities)),
        "weight_column": roles.weight, "count_column": roles.count, "target": compared.target,
        "classes": [str(label) for label in rows.predictions.classes],
    }  # fmt: skip
    assert rows.scores is not None
    made, _ = summarise(
        source, roles, target, score_edges=score_edges, scores=rows.scores, cuts=cuts, max_levels=max_levels,
        about=about, aside=aside,
    )  # fmt: skip
    return made
