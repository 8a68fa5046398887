"""Pictures of the demo's page: light, dark, on a phone, on paper. Needs Chromium, playwright and pillow.

python docs/figures/report_page.py miscal-demo/report.html
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "images"
SHOTS = {
    "report": {"width": 1200, "height": 1150},
    "report-dark": {"width": 1200, "height": 1400},
    "report-phone": {"width": 390, "height": 1700},
    "report-print": {"width": 794, "height": 1123},
}


def main(page: Path) -> None:
    """Take all pictures."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        for name, size in SHOTS.items():
            scheme = "dark" if name.endswith("dark") else "light"
            view = browser.new_page(viewport=size, color_scheme=scheme)
            view.goto(page.resolve().as_uri())
            if name.endswith("print"):
                view.emulate_media(media="print")
            whole = Image.open(io.BytesIO(view.screenshot())).convert("RGB")
            whole.quantize(128).save(IMAGES / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
