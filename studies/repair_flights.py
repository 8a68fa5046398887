"""The bundled flights repaired: the page of before and after, its numbers, and the plot of the choice.

    python -m studies.repair_flights [--quick]

30,000 flights, half to choose and fit the repair, half audited before and after. Writes results/repair_flights.html and
.md, and docs/images/repair-choice.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from miscal.auditing.repair import repair_table
from miscal.datasets import flights
from miscal.report.wording import became
from studies.displays import ChoiceDisplay
from studies.harness import RESULTS, markdown

mpl.use("Agg")
COLUMNS = ["hour", "carrier", "origin", "temperature", "month"]


def main() -> None:
    """Repair and write."""
    quick = "--quick" in sys.argv
    table = flights()
    chosen = np.sort(np.random.default_rng(5).permutation(table.num_rows)[: 4000 if quick else 30_000])
    table = table.take(chosen).select(["late", "probability", *COLUMNS])
    effort = "quick" if quick else "normal"
    done = repair_table(table, outcome="late", probability="probability", effort=effort, source="Flights, 2013")
    print(done.record)
    if quick:
        return
    done.record.to_html(RESULTS / "repair_flights.html")
    rows = [
        {
            "where": place["where"], "rows": (place["after"] or {}).get("rows"), "verdict": place["verdict"],
            "before": f"{100 * place['before']['gap']:+.1f}", "after": f"{100 * place['after']['gap']:+.1f}",
        }
        for place in done.record.places
        if place["before"] and place["after"]
    ]  # fmt: skip
    headings = {
        "where": "where",
        "rows": "rows",
        "before": "gap before, points",
        "after": "after",
        "verdict": "verdict",
    }
    said = became([place["verdict"] for place in done.record.places])
    text = f"{done.model.reason}\n\n{said}\n\n{markdown(rows, headings)}\n"
    (RESULTS / "repair_flights.md").write_text(text, encoding="utf-8")
    image = Path(__file__).parents[1] / "docs" / "images" / "repair-choice.png"
    ChoiceDisplay(done.model).plot().figure_.savefig(image, dpi=110)


if __name__ == "__main__":
    main()
