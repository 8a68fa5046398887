"""Pictures of pages. Needs Chromium, playwright and pillow.

python -m docs.figures.report_page miscal-demo/report.html          # the demo: light, dark, phone, paper, sections
python -m docs.figures.report_page --tables FOLDER                  # every page of studies/audit_pages.py
python -m docs.figures.report_page --quick                          # a page of few flights, pictures left nowhere
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from studies.harness import images_folder
from studies.needs import chromium, need

SHOTS = {
    "report": {"width": 1200, "height": 1150},
    "report-dark": {"width": 1200, "height": 1400},
    "report-phone": {"width": 390, "height": 1700},
    "report-print": {"width": 794, "height": 1123},
}
SECTIONS = {
    "report-subpopulations": "#subpopulations",
    "report-columns": "#columns .grid",
    "report-periods": "#periods",
}
TABLES = ("flights", "diabetes130", "sba_loans", "credit_default_taiwan", "compas_two_year")
TABLE = {"width": 1200, "height": 1500}
TALLEST = 1400
COLOURS = 256


def save(picture: bytes, name: str) -> None:
    """Write a picture with its most frequent colours only, which is a third of its size and shifts none of them."""
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    shown = whole.crop((0, 0, whole.width, min(whole.height, TALLEST if name != "report-phone" else 1700)))
    counted = sorted(shown.getcolors(shown.width * shown.height), reverse=True)[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for _, colour in counted for channel in colour])
    shown.quantize(palette=palette, dither=Image.Dither.NONE).save(images_folder() / f"{name}.png", optimize=True)


def demo(browser: Any, page: Path) -> None:
    """All pictures of the demo's page."""
    for name, size in SHOTS.items():
        view = browser.new_page(viewport=size, color_scheme="dark" if name.endswith("dark") else "light")
        view.goto(page.resolve().as_uri())
        if name.endswith("print"):
            view.emulate_media(media="print")
        save(view.screenshot(), name)
    view = browser.new_page(viewport=SHOTS["report"])
    view.goto(page.resolve().as_uri())
    view.evaluate("document.querySelector('nav').remove()")  # it sticks to the top of the window
    for name, place in SECTIONS.items():
        save(view.locator(place).first.screenshot(), name)
    view.locator(".card h3").first.click()
    save(view.locator("#findings").screenshot(), "report-closer")


def small_page(folder: Path) -> Path:
    """The page of an audit of one flight in eight."""
    import miscal
    from miscal.datasets import flights

    table = flights()
    table = table.take(np.arange(0, table.num_rows, 8))
    page = folder / "report.html"
    miscal.audit(table, outcome="late", probability="probability", time="date", ignore=["month", "day"]).to_html(page)
    return page


def main(arguments: list[str]) -> None:
    """Take the pictures asked for."""
    need("Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        if arguments[0] == "--quick":
            with tempfile.TemporaryDirectory() as folder:
                demo(browser, small_page(Path(folder)))
        elif arguments[0] != "--tables":
            demo(browser, Path(arguments[0]))
        for name in TABLES if arguments[0] == "--tables" else ():
            view = browser.new_page(viewport=TABLE, color_scheme="light")
            view.goto((Path(arguments[1]) / f"{name}.html").resolve().as_uri())
            save(view.screenshot(), f"page-{name}")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
