"""Picture of the page of a repair of the bundled flights: its top, and before and after.

Needs Chromium, playwright and pillow.

python -m docs.figures.repair_page [--quick]
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from miscal.auditing.repair import repair_table
from miscal.datasets import flights
from studies.harness import images_folder
from studies.needs import chromium, need

COLUMNS = ["hour", "carrier", "origin", "temperature", "month"]


def main() -> None:
    """Repair the flights and take the picture."""
    need("Chromium")
    from playwright.sync_api import sync_playwright

    table = flights()
    step = 80 if "--quick" in sys.argv else 8  # every eighth row is enough for a picture
    table = table.take(np.arange(0, table.num_rows, step))
    done = repair_table(table, outcome="late", probability="probability", by=COLUMNS, source="Flights, late 2013")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page.html"
        done.record.to_html(page)
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1200, "height": 620}, color_scheme="light")
        view.goto(page.as_uri())
        shots = [view.screenshot()]
        view.set_viewport_size({"width": 1200, "height": int(view.evaluate("document.body.scrollHeight"))})
        shots.append(view.locator("#repair").screenshot())
        parts = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
        whole = Image.new("RGB", (1200, sum(part.height for part in parts)), parts[0].getpixel((0, 0)))
        top = 0
        for part in parts:
            whole.paste(part, ((1200 - part.width) // 2, top))
            top += part.height
        whole.quantize(128).save(images_folder() / "repair-page.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
