"""The command `miscal page`: saved audits as a page, without the data."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["page"]


@click.command()
@click.argument("audits", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", default="report.html", show_default=True, type=click.Path(path_type=Path), help="Page to write.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="JSON to write.")
@click.option("--save", "saved", type=click.Path(path_type=Path), help="File that keeps the merged audit.")
@click.option("--baseline", type=click.Path(path_type=Path), help="An earlier audit (of --save) to compare with.")
@click.option("--suppress-below", default=0, help="Keep cells of fewer rows out of page, JSON and CSV.")
def page(
    audits: tuple[Path, ...], out: Path, json_path: Path | None, saved: Path | None, baseline: Path | None,
    suppress_below: int,
) -> None:  # fmt: skip
    """Render audits that `miscal audit --save` kept; several are merged, each under the name of its file."""
    from miscal.cli import show
    from miscal.report.record import Audit

    loaded = {path.stem: Audit.load(path) for path in audits}
    found = next(iter(loaded.values())) if len(audits) == 1 else Audit.merge(loaded)
    if baseline is not None:
        found = found.with_comparison(Audit.load(baseline))
    if saved is not None:
        found.save(saved)
    if suppress_below:
        found = found.suppressed(suppress_below)
    show(found)
    for path in filter(None, (out, json_path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    found.to_html(out)
    if json_path is not None:
        found.to_json(json_path)
    click.echo("\n" + "   ".join(f"{w}: {p}" for w, p in (("Page", out), ("JSON", json_path), ("Audit", saved)) if p))
