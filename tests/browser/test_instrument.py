"""The page as an instrument: a finding seen closely, findings filtered, by mouse, keyboard and on a phone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from miscal.report.findings import Finding
from miscal.report.html.page import to_html

VISIBLE = "#findings [data-form]:not([hidden])"
LARGEST = 1_500_000
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def first_card(page: Any) -> Any:
    return page.locator(".card").first


def test_a_click_on_a_card_shows_its_curve_neighbours_and_sql(show: Any, audited: dict[str, Any]) -> None:
    view = show(audited)
    card, head = first_card(view.page), Finding.from_dict(audited["findings"][0])
    panel = card.locator("> .look .closer")
    assert not panel.is_visible()
    card.locator("h3").click()
    assert panel.is_visible()
    curve = next(one for one in audited["along_score"] if one["where"] == head.where)
    assert sum(curve["table"]["rows"]) == head.rows == curve["of"]
    assert panel.locator("svg.variable circle").count() == len(curve["table"]["rows"])
    assert panel.locator("pre code").all_text_contents() == [head.sql]
    levels = panel.locator("tbody tr")
    assert levels.count() == 4  # of the column state
    assert levels.locator("th").first.inner_text().startswith("a")
    own = levels.filter(has_text="this segment")
    assert own.count() == 1
    assert own.locator("th bdi").inner_text() == "a"
    card.locator("h3").click()
    assert not panel.is_visible()
    assert view.said == []


def test_the_ranges_beside_a_range_are_those_before_and_after_it(show: Any, audited: dict[str, Any]) -> None:
    document = copy.deepcopy(audited)
    low, high = ([*document["sections"]["variable"][0]["table"][key]] for key in ("low", "high"))
    place = {"column": "age", "low": low[4], "high": high[5]}
    document["findings"][0] |= {"where": "here", "columns": ["age"], "condition": [place]}
    page = show(document).page
    rows = first_card(page).locator("> .look tbody tr")
    assert ["this segment" in text for text in rows.locator("th").all_text_contents()] == [
        False, False, True, True, False, False,
    ]  # fmt: skip


def test_a_panel_opens_and_closes_by_the_keyboard(show: Any, audited: dict[str, Any]) -> None:
    page = show(audited).page
    page.emulate_media(reduced_motion="reduce")  # no smooth scrolling, which hides tooltips
    summary = first_card(page).locator("> .look > summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert first_card(page).locator(".closer").first.is_visible()
    page.keyboard.press("Tab")
    page.evaluate(DRAWN)
    page.keyboard.press("ArrowRight")  # into the figure: its points are read one by one
    assert page.locator("#tooltip").is_visible()
    page.keyboard.press("Escape")
    assert not first_card(page).locator(".closer").first.is_visible()
    assert summary.evaluate("(line) => line === document.activeElement")


def test_the_sql_is_copied(show: Any, audited: dict[str, Any], browser: Any) -> None:
    browser.grant_permissions(["clipboard-read", "clipboard-write"])
    page = show(audited).page
    first_card(page).locator("> .look > summary").click()
    first_card(page).locator("button.copy").first.click()
    page.locator("button.copy", has_text="Copied").first.wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == Finding.from_dict(audited["findings"][0]).sql


def test_findings_are_filtered_by_column_form_and_size(show: Any, audited: dict[str, Any]) -> None:
    view = show(audited)
    page, found = view.page, view.page.locator(".filters .found")
    column, form = page.locator(".filters select").all()
    total = page.locator("#findings [data-form]").count()
    column.select_option("age")
    shown = page.locator(f"{VISIBLE}").evaluate_all("(list) => list.map((e) => [e.dataset.columns, e.className])")
    assert all("age" in names or "card" in classes for names, classes in shown)
    named = page.locator("#findings [data-form]").evaluate_all("(list) => list.map((e) => e.dataset.columns)")
    about = sum('"age"' in one or one == "age" for one in named)
    assert 0 < about < total
    assert found.inner_text() == f"{about} of {total} segments"
    column.select_option("")
    form.select_option("too high")
    forms = page.locator("#findings li.card:not([hidden])").evaluate_all("(list) => list.map((e) => e.dataset.form)")
    assert "too high" in forms
    page.locator(".filters button").click()
    assert page.locator(VISIBLE).count() == total
    assert found.inner_text() == ""
    largest = max(abs(one["events_off"]) for one in audited["findings"])
    page.locator(".filters input").fill(str(int(largest)))
    assert found.inner_text().startswith("1 of")
    page.locator(".filters input").fill(str(int(largest) + 1))
    assert page.locator(VISIBLE).count() == 0
    assert view.said == []


@pytest.mark.parametrize("width", [360, 768])
def test_a_panel_fits_a_phone(show: Any, audited: dict[str, Any], width: int) -> None:
    page = show(audited).page
    page.set_viewport_size({"width": width, "height": 760})
    page.locator(".card > .look > summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heights = page.evaluate(
        """[...document.querySelectorAll('.closer svg.figure text')].filter((e) => e.checkVisibility())
           .map((e) => e.getScreenCTM().a * parseFloat(getComputedStyle(e).fontSize))"""
    )
    assert min(heights) >= 9.0


def test_without_a_script_everything_opens_and_nothing_dead_is_shown(
    browser: Any, audited: dict[str, Any], tmp_path: Any
) -> None:
    file = tmp_path / "still.html"
    changed = to_html(audited).replace("root.classList.add(", "root.classList.remove(")  # its hash refuses it
    file.write_text(changed, encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    assert not page.locator(".filters").is_visible()
    page.locator(".card > .look > summary").first.click()
    assert page.locator(".card .closer pre").first.is_visible()
    assert not page.locator("button.copy").first.is_visible()
    page.close()


def test_a_page_of_many_findings_stays_small(audited: dict[str, Any]) -> None:
    document = copy.deepcopy(audited)
    one = document["findings"][0]
    curve = document["along_score"][0]["table"]
    levels = [f"level {k} of a long name" for k in range(120)]
    condition = [{"column": "state", "kind": "category", "levels": levels}]
    document["findings"] = [
        one | {"where": f"place {k}", "columns": [f"column {k % 60}"], "condition": condition, "explained": []}
        for k in range(400)
    ]
    document["along_score"] = [{"where": f"place {k}", "table": curve} for k in range(400)]
    variable = document["sections"]["variable"][0]
    document["sections"]["variable"] = [variable | {"settings": {"column": f"column {k}"}} for k in range(300)]
    assert len(to_html(document).encode()) < LARGEST
