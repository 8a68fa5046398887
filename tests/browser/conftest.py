"""A real browser, offline, with an empty profile, and the sample page opened in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miscal
from miscal.report.codec import dumps
from miscal.report.html.page import write_html

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SAMPLE = Path(__file__).parents[1] / "data" / "audit_sample.json"


@dataclass
class Opened:
    """A page with everything it said and everything it asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One headless Chromium for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=chromium,
            headless=True,
            args=FLAGS,
            viewport={"width": 1280, "height": 900},
            accept_downloads=True,
        )
        yield context
        context.close()


@pytest.fixture(scope="session")
def sample() -> dict[str, Any]:
    """The dictionary of an audit with every key of the schema."""
    document: dict[str, Any] = json.loads(SAMPLE.read_text(encoding="utf-8"))
    return document


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Write an audit's page, open it, and listen to what it says and asks for."""
    opened: list[Opened] = []

    def open_page(document: dict[str, Any]) -> Opened:
        file = tmp_path / "page.html"
        write_html(document, file)
        view = Opened(browser.new_page())
        view.page.set_viewport_size({"width": 1280, "height": 900})
        view.page.on("console", lambda message: view.said.append(f"{message.type}: {message.text}"))
        view.page.on("pageerror", lambda error: view.said.append(f"error: {error}"))
        view.page.on("dialog", lambda dialog: (view.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        view.page.on("request", lambda request: view.asked.append(request.url))
        view.page.goto(file.as_uri())
        opened.append(view)
        return view

    yield open_page
    for view in opened:
        view.page.close()


@pytest.fixture(scope="session")
def audited() -> dict[str, Any]:
    """An audit of a table in which a level is too low, a range too high, and one pair of columns too high."""
    rng = np.random.default_rng(5)
    rows = 12000
    p, age = rng.beta(2, 4, rows), rng.normal(40, 10, rows)
    state, plan = rng.choice(list("abcd"), rows), rng.choice(["x", "y", "z"], rows)
    wrong = 0.2 * (state == "a") - 0.12 * (age > 50) - 0.2 * ((state == "c") & (plan == "x"))
    y = rng.random(rows) < np.clip(p + wrong, 0.0, 1.0)
    table = {"y": y, "p": p, "age": age, "state": state, "plan": plan, "other": rng.normal(size=rows)}
    found = miscal.audit(table, outcome="y", probability="p")
    document: dict[str, Any] = json.loads(dumps(found.document))
    return document
