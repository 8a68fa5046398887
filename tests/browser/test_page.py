"""The page in a real browser: quiet, offline, and usable with a mouse, a keyboard, a phone and a printer."""

from __future__ import annotations

import copy
import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miscal

COLUMN_ROWS = "#columns-table tbody tr:not([hidden])"

RIGHTMOST = """Math.max(...[...document.querySelectorAll('main *')]
  .filter((e) => !e.closest('.scroller, .unseen, svg')).map((e) => e.getBoundingClientRect().right))"""
TEXT_HEIGHTS = """[...document.querySelectorAll('main svg.figure text')]
  .map((e) => e.getScreenCTM().a * parseFloat(getComputedStyle(e).fontSize))"""


SETTLED = """() => new Promise((done) => {
  let before = scrollY, still = 0;
  const look = () => {
    still = scrollY === before ? still + 1 : 0;
    before = scrollY;
    if (still > 3) done(); else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def hover(page: Any, point: Any, beside: float = 0.0) -> None:
    """Move the mouse to a point once scrolling, which hides tooltips, is over."""
    point.scroll_into_view_if_needed()
    page.evaluate(SETTLED)
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2 + beside, box["y"] + box["height"] / 2)


def names(page: Any) -> list[str]:
    found: list[str] = page.locator(f"{COLUMN_ROWS} th").all_inner_texts()
    return found


def saved(view: Any, button: Any) -> list[list[str]]:
    with view.page.expect_download() as download:
        button.click()
    content = Path(download.value.path()).read_bytes().decode("utf-8-sig")
    return list(csv.reader(io.StringIO(content, newline="")))


def test_the_page_is_quiet_and_asks_for_nothing(show: Any, sample: dict[str, Any]) -> None:
    view = show(sample)
    assert view.said == []
    assert len(view.asked) == 1
    assert view.asked[0].startswith("file:")
    assert "Predictions are too high" in view.page.locator("h1").inner_text()
    for figure in ("reliability", "cumulative", "variable", "field", "funnel", "gap"):
        first = view.page.locator(f"svg.{figure}").first
        box = first.bounding_box()
        assert box is not None, figure
        assert box["width"] > 200, figure
    assert view.page.evaluate("document.documentElement.classList.contains('script')")


def test_a_click_on_a_heading_sorts(show: Any, sample: dict[str, Any]) -> None:
    page = show(sample).page
    before = names(page)
    page.locator("#columns-table thead button", has_text="Column").click()
    assert names(page) == sorted(before, key=str.lower)
    assert page.locator("#columns-table thead th").first.get_attribute("aria-sort") == "ascending"
    page.locator("#columns-table thead button", has_text="Average error").click()
    shown = [
        float(text.removesuffix(" pp"))
        for text in page.locator(f"{COLUMN_ROWS} td[data-label='Average error']").all_inner_texts()
    ]
    assert shown == sorted(shown, reverse=True)
    page.locator("#columns-table thead button", has_text="Average error").press("Enter")
    again = [
        float(text.removesuffix(" pp"))
        for text in page.locator(f"{COLUMN_ROWS} td[data-label='Average error']").all_inner_texts()
    ]
    assert again == sorted(shown)


def test_searching_keeps_what_matches_in_table_and_figures(show: Any, sample: dict[str, Any]) -> None:
    page = show(sample).page
    every = len(names(page))
    page.locator("#columns input[type=search]").fill("CARRIER")
    assert names(page) == ["carrier"]
    assert page.locator("#columns .found").inner_text() == f"1 of {every}"
    headings = page.locator("#columns figure:not([hidden]) h4").all_inner_texts()
    assert headings == ["carrier", "carrier: all categories"]
    page.locator("#columns input[type=search]").fill("")
    assert len(names(page)) == every


def test_hovering_and_arrow_keys_show_what_a_point_says(show: Any, sample: dict[str, Any]) -> None:
    page = show(sample).page
    tooltip = page.locator("#tooltip")
    assert tooltip.is_hidden()
    hover(page, page.locator("svg.reliability circle").last, 6)
    assert tooltip.is_visible()
    assert re.search(r"\d% predicted, [\d.]+% observed\n[\d,]+ rows", tooltip.inner_text())
    page.mouse.move(2, 2)
    assert tooltip.is_hidden()
    page.locator("svg.cumulative").focus()
    page.keyboard.press("ArrowRight")
    first = tooltip.inner_text()
    page.keyboard.press("ArrowRight")
    assert tooltip.is_visible()
    assert tooltip.inner_text() != first
    page.keyboard.press("Escape")
    assert tooltip.is_hidden()


def test_the_data_of_a_figure_are_one_click_away(show: Any, sample: dict[str, Any]) -> None:
    view = show(sample)
    figure = view.page.locator("figure", has=view.page.locator("svg.reliability"))
    rows = saved(view, figure.locator("button.csv"))
    table = sample["sections"]["score"][0]["table"]
    assert rows[0][:2] == ["label", "rows"]
    assert len(rows) == 1 + len(table["predicted"])
    place = rows[0].index("predicted")
    assert [float(row[place]) for row in rows[1:]] == pytest.approx(table["predicted"], rel=1e-5)
    figure.locator("button.show").click()
    assert figure.locator(".sheet tbody tr").count() == len(table["predicted"])
    assert figure.locator("button.show").get_attribute("aria-expanded") == "true"
    real = sum(one["real"] for one in sample["findings"])
    assert len(saved(view, view.page.locator("#findings button.csv"))) == 1 + real
    assert view.said == []
    assert not [address for address in view.asked if not address.startswith(("file:", "blob:"))]


def test_the_rows_of_a_finding_are_beside_it_and_in_the_csv_as_sql(show: Any, sample: dict[str, Any]) -> None:
    level = "O'Hare\n <b>two  spaces</b>" + "x" * 500
    place = {"columns": ["site"], "condition": [{"column": "site", "kind": "category", "levels": [level]}]}
    day = {"columns": ["day"], "condition": [{"column": "day", "kind": "date", "high": 19000.0}]}
    head = sample["findings"][0] | {"where": "site", "parent": None, "form": "too high"}
    below = head | {"where": "below", "parent": "site"}
    findings = [head | place | {"explained": [below]}, head | day | {"where": "day"}]
    view = show(sample | {"findings": findings})
    said = "' || chr(10) || '"
    clause = f"(\"site\" IS NOT NULL AND \"site\" IN ('O''Hare{said} <b>two  spaces</b>{'x' * 500}'))"
    rows = saved(view, view.page.locator("#findings button.csv").last)
    listed = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    day_clause = '("day" IS NOT NULL AND "day" <= TIMESTAMP \'2022-01-08\')'
    assert [row["sql"] for row in listed] == [clause, "", day_clause]  # what a finding explains follows it
    assert listed[2]["sql_sqlite"].startswith("(strftime(")
    assert [row["parent"] for row in listed] == ["", "site", ""]
    assert "form" in listed[0]
    blocks = [card.locator("pre code").all_text_contents() for card in view.page.locator(".card").all()]
    assert blocks[0][0] == clause
    assert [block[:5] for block in blocks[1]] == ['("day', "(strf"]


@pytest.mark.parametrize(
    "levels", [("=1+1", "+cmd", "-2"), ("@SUM(A1)", "\t=1", "|x"), (' "quoted", two\nlines', "ünï 🦊", "=")]
)
def test_a_cell_is_never_a_formula(show: Any, sample: dict[str, Any], levels: tuple[str, ...]) -> None:
    document = copy.deepcopy(sample)
    field = document["sections"]["field"][1]
    field["table"]["level"] = list(levels)
    view = show(document)
    figure = view.page.locator("figure", has=view.page.locator("h4", has_text="origin"))
    cells = [row[0] for row in saved(view, figure.locator("button.csv").first)]
    shown = [" ".join(level.split()) for level in levels]
    assert cells[1:] == [f"'{level}" if level[0] in "=+-@|" else level for level in shown]
    assert not [cell for cell in cells if re.match(r"\s*[=+\-@|]", cell)]


def test_nothing_scrolls_sideways(show: Any, sample: dict[str, Any]) -> None:
    document = copy.deepcopy(sample)
    document["findings"][0]["where"] = "x" * 400
    document["sections"]["variable"][0]["settings"] = {"variable": "y" * 400}
    document["data"]["outcome"] = "z" * 400
    page = show(document).page
    for width in (1280, 768, 360):
        page.set_viewport_size({"width": width, "height": 760})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(RIGHTMOST) <= width + 1


def test_text_of_the_figures_is_readable_on_a_phone(show: Any, sample: dict[str, Any]) -> None:
    page = show(sample).page
    page.set_viewport_size({"width": 360, "height": 760})
    heights = page.evaluate(TEXT_HEIGHTS)
    assert min(heights) >= 9.0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(show: Any, sample: dict[str, Any], scheme: str) -> None:
    page = show(sample).page
    page.emulate_media(color_scheme=scheme)
    colours = page.evaluate(
        """() => {
          const style = getComputedStyle(document.documentElement);
          return Object.fromEntries(["paper", "sheet", "ink", "quiet", "accent", "over", "under", "noise"].map((key) =>
            [key, style.getPropertyValue("--" + key).trim()]));
        }"""
    )
    paper = luminance(colours["paper"])
    assert (paper > 0.5) == (scheme == "light")
    for key, least in {"ink": 7.0, "quiet": 4.5, "accent": 4.5, "over": 4.5, "under": 4.5, "noise": 3.0}.items():
        for ground in ("paper", "sheet"):
            assert contrast(luminance(colours[key]), luminance(colours[ground])) >= least, (key, ground)


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as the web's accessibility guidelines define it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_paper_is_six_pages_at_most_and_hides_what_cannot_be_clicked(
    show: Any, audited: dict[str, Any], tmp_path: Path
) -> None:
    page = show(audited).page
    page.emulate_media(media="print")
    for hidden in ("nav", ".tools", ".filters", "details:not([open])", "#words"):
        assert page.locator(f"{hidden}:visible").count() == 0, hidden
    assert "The file itself has everything." in page.locator("footer").inner_text()
    page.locator("details.look").first.evaluate("(look) => { look.open = true; }")
    assert page.locator(".closer pre").first.is_visible()  # what was open is printed
    file = tmp_path / "page.pdf"
    page.pdf(path=str(file), format="A4", print_background=True)
    content = file.read_bytes()
    assert content.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 6


def test_names_that_attack_do_nothing(show: Any, sample: dict[str, Any]) -> None:
    attacks = [
        "</script><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "<svg onload=alert(1)>",
        "javascript:alert(1)",
    ]
    for attack in attacks:
        document = copy.deepcopy(sample)
        document["data"] |= {"outcome": attack, "source": attack}
        document["findings"][0]["where"] = attack
        document["too_small"][0]["where"] = attack
        document["sections"]["field"][0]["settings"] = {"field": attack}
        document["sections"]["field"][0]["table"]["level"][0] = attack
        view = show(document)
        view.page.locator("figure", has_text=attack).locator("button.show").first.click()
        assert view.said == []
        assert len(view.asked) == 1
        assert attack in view.page.locator("#findings h3").first.inner_text()


def test_everything_can_be_reached_and_is_named(show: Any, sample: dict[str, Any]) -> None:
    page = show(sample).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    unnamed = page.evaluate(
        """[...document.querySelectorAll('svg.figure, input, button')].filter((e) =>
             !(e.getAttribute('aria-label') || e.textContent.trim())).length"""
    )
    assert unnamed == 0
    assert page.evaluate("[...document.querySelectorAll('th')].every((e) => e.scope)")
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((e) => +e.tagName[1])")
    assert levels.count(1) == 1
    outline = page.evaluate("document.querySelector('main').querySelector('h1, h2').tagName")
    assert outline == "H1"


def test_the_data_of_a_field_can_be_sorted_and_searched(show: Any, sample: dict[str, Any]) -> None:
    document = copy.deepcopy(sample)
    field = document["sections"]["field"][0]
    many = 40
    numbers = {
        key: [float(i % 7) / 10 for i in range(many)] for key in ("rows", "weight", "predicted", "observed", "gap")
    }
    field["table"] = {"level": [f"level {i}" for i in range(many)], **numbers}
    field["settings"], field["extra"] = {"field": "many levels"}, {}
    view = show(document)
    figure = view.page.locator("figure", has=view.page.locator("h4", has_text=re.compile("^many levels$")))
    figure.locator("button.show").first.click()
    sheet = figure.locator(".sheet").first
    heads = sheet.locator("thead th").all_inner_texts()
    place = 1 + [head.strip().split()[0] for head in heads].index("gap")
    sheet.locator("thead button", has_text="gap").first.click()
    assert sheet.locator("thead th[aria-sort=descending]").count() == 1
    shown = [float(text) for text in sheet.locator(f"tbody tr td:nth-child({place})").all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    sheet.locator("input[type=search]").fill("level 39")
    assert sheet.locator("tbody tr:not([hidden])").count() == 1
    assert sheet.locator(".found").inner_text() == "1 of 40"
    assert view.said == []


def test_maps_changes_and_groups_are_shown(show: Any, sample: dict[str, Any]) -> None:
    document = copy.deepcopy(sample)
    grid = {
        "x": [0, 1, 2],
        "y": [0, 1, 2],
        "gap": [[0.1, -0.1], [0.0, None]],
        "deviations": [[5.0, -2.5], [0.5, None]],
        "rows": [[10, 20], [30, 0]],
    }
    result = {
        "settings": {"columns": ["a", "<b>"]},
        "extra": {"grid": grid, "largest_deviations": 5.0},
        "p_value": 0.001,
    }
    document["sections"]["neighbourhood"] = [result]
    differences = {key: [0.1, -0.1] for key in ("rows", "gap", "gap_rest", "difference", "low", "high")}
    document["sections"]["field"][0].setdefault("extra", {})["differences"] = {"level": ["f", "m"], **differences}
    table = {
        "where": ["sex f"],
        "verdict": ["worse"],
        "gap_before": [0.01],
        "gap_after": [0.09],
        "p_adjusted": [0.001],
    }
    document["comparison"] = {
        "paired": True,
        "better": [],
        "worse": ["sex f"],
        "new": ["<i>x"],
        "gone": [],
        "table": table,
    }
    view = show(document)
    assert view.page.locator("svg.neighbourhood rect.heat").count() == 3
    assert view.page.locator("svg.neighbourhood rect.over-3").count() == 1
    assert "1 worse" in view.page.locator("#comparison").inner_text()
    assert view.page.locator("#groups tbody tr").count() == 2
    assert view.said == []


@pytest.mark.parametrize("many", [2, 4, 5, 6])
def test_the_rows_of_cards_are_full(show: Any, sample: dict[str, Any], many: int) -> None:
    one = next(finding for finding in sample["findings"] if finding.get("real", True))
    places = [one | {"where": f"place {k}", "columns": [f"column {k}"], "parent": None} for k in range(many)]
    page = show(sample | {"findings": places}).page
    boxes = [card.bounding_box() for card in page.locator(".cards > .card").all()]
    rows: dict[float, float] = {}
    for box in boxes:
        rows[box["y"]] = max(rows.get(box["y"], 0.0), box["x"] + box["width"])
    assert max(rows.values()) - min(rows.values()) < 2.0
    assert [box["y"] for box in boxes].count(boxes[0]["y"]) == 1  # the first has a row of its own
    assert boxes[0]["width"] > 900.0


def test_a_phone_folds_long_lists_and_unfolds_them(show: Any, sample: dict[str, Any]) -> None:
    one = next(finding for finding in sample["findings"] if finding.get("real", True))
    many = [one | {"where": f"place {k}", "columns": [f"column {k}"], "parent": None} for k in range(9)]
    variables = [
        sample["sections"]["variable"][0] | {"settings": {"column": f"column {k}"}, "extra": {}} for k in range(40)
    ]
    page = show(sample | {"findings": many, "sections": sample["sections"] | {"variable": variables}}).page
    cards, rows = page.locator(".cards > .card"), page.locator("#columns-table tbody tr")
    figures = page.locator("#columns .grid > figure")
    assert cards.nth(8).is_visible()
    assert not figures.nth(35).is_visible()  # a wide screen too shows the first thirty figures only
    page.set_viewport_size({"width": 390, "height": 800})
    assert not cards.nth(8).is_visible()
    assert not rows.nth(20).is_visible()
    assert rows.first.bounding_box()["height"] < 125  # a row of eight columns is a name and two lines
    page.locator(".cards + .unfold").click()
    assert cards.nth(8).is_visible()
    page.locator("#columns-table thead button").first.click()  # sorting shows all rows
    assert rows.nth(20).is_visible()
    page.locator("#columns .grid + .unfold").click()
    assert figures.nth(35).is_visible()
    page.set_viewport_size({"width": 1280, "height": 900})


def test_periods_are_drawn_said_and_saved(show: Any, sample: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    rows, days = 9000, rng.integers(0, 300, 9000)
    p = rng.beta(2, 6, rows)
    y = rng.random(rows) < np.clip(p + 0.2 * (days >= 150), 0, 1)
    when = np.datetime64("2024-01-01") + days.astype("m8[D]")
    found = miscal.audit({"y": y, "p": p, "when": when}, outcome="y", probability="p", time="when", effort="quick")
    view = show(found.document)
    section = view.page.locator("#periods")
    table = found.document["sections"]["period"][0]["table"]
    assert section.locator(".told li").count() == sum(v in ("worse", "better", "moved") for v in table["verdict"])
    assert section.locator(".told li").first.inner_text().startswith("From May to June 2024 the model got worse:")
    assert section.locator("svg.periods").count() == 2
    assert section.locator("svg.periods").last.locator("circle").count() == 10
    saved_rows = saved(view, section.locator("button.csv").last)
    assert saved_rows[0][0] == "label"
    place = saved_rows[0].index("words")
    assert [row[place] for row in saved_rows[1:]] == table["words"]
    hover(view.page, section.locator("svg.periods circle").last)
    assert view.page.locator("#tooltip").inner_text().startswith("when October 2024\n")
    view.page.set_viewport_size({"width": 360, "height": 760})
    assert view.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert min(view.page.evaluate(TEXT_HEIGHTS)) >= 9.0
    assert view.said == []
