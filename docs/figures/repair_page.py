"""Picture of the page of before and after, of the bundled flights. Needs Chromium, playwright and pillow.

python docs/figures/repair_page.py
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from miscal.datasets import flights
from miscal.report.repairing import repair_table

IMAGE = Path(__file__).parents[1] / "images" / "repair-page.png"
COLUMNS = ["hour", "carrier", "origin", "temp", "month"]


def main() -> None:
    """Repair the flights and take the picture."""
    done = repair_table(flights(), outcome="late", probability="probability", by=COLUMNS, source="Flights, late 2013")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page.html"
        done.write(page=page)
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1200, "height": 1750}, color_scheme="light")
        view.goto(page.as_uri())
        Image.open(io.BytesIO(view.screenshot())).convert("RGB").quantize(128).save(IMAGE, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
