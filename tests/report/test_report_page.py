"""The page, the JSON and the markdown: complete, safe, small, and never half written."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import miscal
from miscal.auditing.gates import Gates, judge
from miscal.data import outputs
from miscal.data.errors import MiscalError
from miscal.report.codec import dumps, plain, read_json, report_from, write_json, write_text
from miscal.report.html.markup import asset
from miscal.report.html.page import digest, to_html, write_html
from miscal.report.html.sections.columns import entries
from miscal.report.html.sections.score import key_numbers, verdict
from miscal.report.markdown import to_markdown, to_model_card
from miscal.report.model import AuditReport

SAMPLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "audit_sample.json").read_text(encoding="utf-8")
)
SAMPLE["sections"]["period"] = [
    {
        "name": "Calibration by month", "kind": "period", "method": "", "p_value": 0.01, "value": 0.02,
        "noise_floor": 0.01, "settings": {"column": "date"}, "extra": {"column": "date", "every": "month", "note": "x"},
        "table": {
            "label": ["2013-07", "2013-08"], "before": [None, "2013-07"], "rows": [9000, 9500], "predicted": [0.2, 0.2],
            "observed": [0.2, 0.3], "gap": [0.0, -0.1], "verdict": ["first", "worse"], "change": [None, -0.1],
            "words": ["The first month.", "From July to August 2013 the model got worse: so it did."],
        },
    }
]  # fmt: skip
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '=HYPERLINK("http://example.invalid")',
    "<!--",
    "]]>",
    "🦊 ünïcode \u202e reversed",
    "null\x00byte \ud800 surrogate",
    "long " * 2000,
    "",
]


def audited(**parts: Any) -> AuditReport:
    """An audit of which only some parts are known."""
    return report_from({"schema": "miscal.audit/1", **parts})


class Page(HTMLParser):
    """The elements with their attributes, and the identifiers and links among them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, element: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((element, dict(attributes)))

    def of(self, element: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == element]


def hostile(name: str) -> dict[str, Any]:
    """The sample with one name in every place where a user's text can stand."""
    document = copy.deepcopy(SAMPLE)
    document["data"] |= {
        "outcome": name,
        "probability": name,
        "probability_columns": [name, name],
        "source": name,
        "fingerprint": name,
    }
    document["settings"][name] = name
    for finding in document["findings"]:
        finding |= {"where": name, "columns": [name], "levels": [name], "code": name}
    for key in ("clean", "too_small"):
        for entry in document[key]:
            entry |= {"where": name, "reason": name}
    for results in document["sections"].values():
        for result in results:
            result["name"] = name
            result["method"] = name
            result["settings"] = {"column": name}
            if result["kind"] == "period":
                result["extra"] |= {"column": name, "note": name, "every": name}
                result["table"] |= {key: [name] * len(result["table"]["label"]) for key in ("label", "words", "before")}
            if "level" in result["table"]:
                result["table"]["level"] = [name for _ in result["table"]["level"]]
    return document


def test_the_page_is_complete_and_small() -> None:
    text = to_html(SAMPLE)
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert len(text.encode()) < 1_500_000
    assert "Predictions are too high: " in re.sub(r"<[^>]+>", "", text)
    identities = [a["id"] for _, a in page.elements if "id" in a]
    assert len(identities) == len(set(identities))
    targets = {a["href"] for a in page.of("a")}
    assert {t for t in targets if t} <= {f"#{identity}" for identity in identities}
    assert {"findings", "score", "columns", "clean", "too-small", "method", "words"} <= set(identities)
    classes = [a.get("class") or "" for a in page.of("svg")]
    for figure in ("reliability", "cumulative", "variable", "field", "funnel", "gap"):
        assert any(figure in class_.split() for class_ in classes), figure


def test_the_policy_allows_this_style_and_this_script_and_nothing_else() -> None:
    text = to_html(SAMPLE)
    page = Page(text)
    policy = next(a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert f"<style>{asset('page.css')}</style>" in text
    assert digest(asset("page.css")) in policy
    assert digest(asset("page.js")) in policy
    assert not [a for _, a in page.elements if any(key == "style" or key.startswith("on") for key in a)]
    assert all(a.get("type") == "application/json" for a in page.of("script")[:-1])
    addresses = [a.get(key) for _, a in page.elements for key in ("src", "href", "action") if a.get(key)]
    assert all(address.startswith(("#", "data:,")) for address in addresses if address)


@pytest.fixture(scope="module")
def ordinary() -> Page:
    """The page that hostile names are held against."""
    return Page(to_html(hostile("ordinary")))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_text(name: str, ordinary: Page) -> None:
    text = to_html(hostile(name))
    attacked = Page(text)
    assert [e for e, _ in attacked.elements if e in ("script", "img", "iframe", "style")] == [
        e for e, _ in ordinary.elements if e in ("script", "img", "iframe", "style")
    ]
    assert not [a for _, a in attacked.elements if any(key.startswith("on") for key in a)]
    text.encode("utf-8")
    to_markdown(hostile(name)).encode("utf-8")


def test_a_name_cannot_end_the_data_block() -> None:
    text = to_html(hostile("</script><script>alert(1)</script>"))
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', text, flags=re.S)
    names = {label for block in blocks for label in json.loads(block)["columns"].get("label", [])}
    assert "</script><script>alert(1)</script>" in names


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"data": None, "score": None, "findings": None, "clean": None, "too_small": None, "sections": None},
        {"sections": {"score": [], "variable": [{}], "field": [{"table": {}}]}, "findings": [{}], "clean": [{}]},
        {"score": {"predicted": 0.2, "observed": 0.2, "expected": None}, "sections": {"score": [{"table": {}}]}},
    ],
)
def test_a_poor_document_still_makes_a_page(document: dict[str, Any]) -> None:
    document = {"schema": "miscal.audit/1", **document}
    assert Page(to_html(document)).of("h1")
    assert to_markdown(document).startswith("# ")


@pytest.mark.parametrize("document", [None, [], "text", {}, {"schema": "miscal.audit/2"}])
def test_what_is_not_an_audit_is_refused(document: object) -> None:
    for render in (to_html, to_markdown):
        with pytest.raises(MiscalError, match="document"):
            render(document)


def test_many_columns_stay_below_the_limit() -> None:
    document = copy.deepcopy(SAMPLE)
    one = document["sections"]["field"][2]
    document["sections"]["field"] = [one | {"settings": {"field": f"column {i}"}} for i in range(300)]
    text = to_html(document)
    assert len(text.encode()) < 1_500_000
    assert "further columns" in text
    assert text.count("column 299") >= 1


def test_ten_thousand_levels_stay_below_the_limit() -> None:
    document = copy.deepcopy(SAMPLE)
    rng = np.random.default_rng(0)
    table = {"level": [f"level {i}" for i in range(10_000)], "rows": rng.integers(1, 999, 10_000).tolist()}
    table |= {key: rng.random(10_000).tolist() for key in ("predicted", "observed", "p_value", "gap_low", "gap_high")}
    document["sections"]["field"].append({"name": "big", "value": 0.1, "noise_floor": 0.01, "table": table})
    text = to_html(document)
    assert len(text.encode()) < 1_500_000
    assert "10 of 10,000 categories" in text


def test_forbidden_words_are_not_on_the_page() -> None:
    words = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", to_html(SAMPLE), flags=re.S).lower()
    for word in ("proven", "noise alone", "running total", "set aside", "not looked at"):
        assert word not in words


@pytest.mark.parametrize(
    ("score", "findings", "sentence"),
    [
        ({"gap": {"value": -0.028, "p_value": 0.001}}, [], "Predictions are too low: 24.1% predicted, 26.9% observed."),
        (
            {"gap": {"value": -0.028, "interval": [-0.05, 0.01]}},
            [],
            "No significant miscalibration found: 24.1% predicted, 26.9% observed.",
        ),
        (
            {},
            [{"real": True, "where": "a"}],
            "No significant gap overall, but miscalibrated in one segment, a: 24.1% predicted, 26.9% observed overall.",
        ),
        ({}, [{"real": False}], "No significant miscalibration found: 24.1% predicted, 26.9% observed."),
        (
            {"kuiper": {"value": 0.02, "p_value": 0.01}, "slope": {"value": 0.8, "interval": [0.7, 0.9]}},
            [],
            "No significant gap overall, but the scores are too extreme: 24.1% predicted, 26.9% observed overall.",
        ),
    ],
)
def test_the_verdict_in_one_sentence(score: dict[str, Any], findings: list[Any], sentence: str) -> None:
    document = audited(score={"predicted": 0.241, "observed": 0.269, **score}, findings=findings)
    assert verdict(document).sentence == sentence


BENT = {"kuiper": {"value": 0.02, "p_value": 0.01}, "expected": {"value": 0.02, "p_value": 0.2}}


def of_all(findings: list[dict[str, Any]], **score: Any) -> dict[str, Any]:
    """An audit that says how many tests there were."""
    rates = {"predicted": 0.241, "observed": 0.242}
    named = [{"real": True, "where": "the whole table", **finding} for finding in findings]
    return audited(score={**rates, **score}, findings=named, settings={"tests": 126})


def test_what_is_beyond_noise_alone_and_not_among_all_tests_is_no_error() -> None:
    document = of_all([], **BENT)
    said = verdict(document)
    assert (said.direction, said.sentence) == (
        "none",
        "No significant miscalibration found: 24.1% predicted, 24.2% observed.",
    )
    assert "Significant only before multiple-testing correction: Kuiper statistic (ECCE-R)." in said.support
    assert "No segment is significantly miscalibrated." in said.support
    assert "Significant before correction" in key_numbers(document)
    nothing = of_all([], kuiper={"value": 0.02, "p_value": 0.3})
    assert not any("before multiple" in sentence for sentence in verdict(nothing).support)


def test_the_verdict_and_what_supports_it_count_the_same_places() -> None:
    whole = {"kind": "score", "form": "too moderate"}
    places = [
        {"kind": "field", "where": "a", "columns": ["c"]},
        {"kind": "score", "where": "class b", "scope": "class b"},
    ]
    end = {"kind": "score", "where": "rows said 0%", "levels": ["0%"], "weight": 300.0, "observed": 0.01}
    slope = {"slope": {"value": 1.1, "interval": [1.05, 1.2]}, **BENT}
    said = verdict(of_all([whole, *places], **slope))
    assert said.sentence == (
        "No significant gap overall, but the scores are too moderate (ECE 2.00 pp), with 2 miscalibrated segments: "
        "24.1% predicted, 24.2% observed overall."
    )
    assert "The whole table and 2 segments are significantly miscalibrated." in said.support
    assert "Significant before correction" not in key_numbers(of_all([whole], **slope))
    assert "The whole table is significantly miscalibrated." in verdict(of_all([whole], **slope)).support
    # A class alone, and an end of the scale beside another place.
    assert verdict(of_all(places[1:])).sentence.startswith(
        "No significant gap overall, but miscalibrated in one segment, class b"
    )
    both = verdict(of_all([places[0], end]))
    assert both.sentence.startswith("No significant gap overall, but miscalibrated in 2 segments; largest: a")
    assert "2 segments are significantly miscalibrated." in both.support
    # Found by its cumulative differences, whatever the other numbers are.
    assert verdict(of_all([whole])).sentence.startswith("No significant gap overall, but miscalibrated at some scores")


def test_a_place_that_is_right_on_average_is_named_by_its_form() -> None:
    ranges = [{"low": 0.5, "high": 1.0, "rows": 9, "events_off": 80.0}, {"low": 0.0, "high": 0.5, "events_off": -80.0}]
    bent = {"kind": "field", "where": "a", "form": "too extreme", "predicted": 0.5, "observed": 0.5}
    said = verdict(of_all([{**bent, "score_ranges": ranges, "explained": [{"real": True, "where": "b"}]}]))
    assert said.sentence.startswith("No significant gap overall, but miscalibrated in one segment, a (too extreme): 24")
    counts = (
        "1 segment is significantly miscalibrated; 1 overlapping segment is no longer significant once it is corrected."
    )
    assert counts in said.support


def test_an_infinite_loss_is_said_to_be_infinite_and_not_left_out() -> None:
    done = {"name": "Blend", "score": {"log_loss": [None, 0.3], "brier": [0.2, 0.1]}, "rows": 50, "fitted_rows": 1}
    page = to_html({**SAMPLE, "repaired_by": done | {"log_loss_change": {"value": None, "interval": [None, None]}}})
    assert "The log loss is infinite where the table shows no value" in page
    assert "changes by" not in page
    assert "Blend was fitted on 1 row and evaluated on 50 held-out rows." in page


def test_steps_that_could_not_be_compared_are_not_counted() -> None:
    verdicts = ["first", "same", "too small", "same"]
    table = {
        "label": list("abcd"),
        "verdict": verdicts,
        "p_adjusted": [1.0] * 4,
        "words": [""] * 4,
        "change": [0.0] * 4,
    }
    (entry,) = audited(sections={"period": [{"table": table, "extra": {"every": "month"}}]}).of("period")
    assert entry.period_summary() == (
        "No significant miscalibration in any of 4 months. "
        "Of 2 steps that could be compared, none changed significantly."
    )


def test_a_comparison_shows_changes_that_its_rounded_gaps_hide() -> None:
    table = {
        "where": ["a"],
        "verdict": ["better"],
        "gap_before": [-0.2008],
        "gap_after": [-0.2002],
        "change": [-0.0006],
    }
    page = to_html({**SAMPLE, "comparison": {"paired": True, "table": table, "better": ["a"]}})
    assert "Change of |gap|" in page
    assert "−0.060 pp" in page


def test_the_smallest_gap_that_would_have_been_seen_is_in_points() -> None:
    text = to_model_card({**SAMPLE, "clean": [{"where": "sex", "detectable": 0.0182}]})
    assert "| sex | 1.8 pp |" in text


def test_whole_numbers_with_missing_values_are_named_alike_everywhere() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, 4000).astype(float)
    age[::9] = np.nan
    y = rng.random(4000) < np.where((age > 40) & (age <= 50), 0.6, 0.3)
    found = miscal.audit({"y": y, "p": np.full(4000, 0.3), "age": age}, outcome="y", probability="p", effort="quick")
    (entry,) = report_from(found.document).of("variable")
    starts = [int(label.split(" to ")[0]) for label in entry.cells.label if label != "missing"]
    ends = [int(label.split(" to ")[-1]) for label in entry.cells.label if label != "missing"]
    assert starts[1:] == [end + 1 for end in ends[:-1]]


@pytest.mark.parametrize(("source", "file"), [("a.csv", "a.csv"), ("*.parquet", "FILE"), ("folder", "FILE")])
def test_advice_names_a_file_and_no_pattern(source: str, file: str) -> None:
    page = to_html({**SAMPLE, "data": {**SAMPLE["data"], "source": source}})
    assert f"miscal check {file} --outcome" in page


def test_a_date_in_the_verdict_is_not_broken() -> None:
    found = [{"real": True, "kind": "variable", "where": "day 2005-12-01 to 2012-07-31"}]
    page = to_html({**SAMPLE, "findings": found, "score": {"predicted": 0.2, "observed": 0.2}})
    assert '<span class="date">2005-12-01</span>' in page.split("</h1>")[0]


def test_the_level_of_the_audit_decides() -> None:
    score = {"predicted": 0.2, "observed": 0.3, "gap": {"value": -0.1, "p_value": 0.03}}
    assert verdict(audited(score=score)).direction == "under"
    assert verdict(audited(score=score, settings={"level": 0.01})).direction == "none"


def test_json_knows_no_nan() -> None:
    value = {"a": np.array([1.5, np.nan, np.inf]), "b": np.float32("nan"), "c": (np.int64(3), np.bool_(True)), 4: None}
    text = dumps(value)
    assert json.loads(text, parse_constant=pytest.fail) == {
        "a": [1.5, None, None],
        "b": None,
        "c": [3, True],
        "4": None,
    }
    assert plain(np.datetime64("2020-01-02")) == "2020-01-02"
    assert json.loads(dumps("\ud800")) == "?"


def test_json_floats_come_back_exactly(tmp_path: Path, rng: np.random.Generator) -> None:
    numbers = rng.standard_normal(1000).tolist()
    write_json({"schema": "miscal.audit/1", "numbers": numbers}, tmp_path / "a.json")
    assert read_json(tmp_path / "a.json")["numbers"] == numbers


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"schema": "other"}', b"[" * 100_000, b"1" * 9000]
)
def test_a_file_that_is_not_an_audit_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(MiscalError):
        read_json(path)


def test_a_file_is_whole_or_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    write_text(path, "before")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs.os, "fsync", fail)
    with pytest.raises(MiscalError, match="No space left"):
        write_html(SAMPLE, path)
    assert path.read_text(encoding="utf-8") == "before"
    assert [item.name for item in tmp_path.iterdir()] == ["page.html"]


def test_writing_where_there_is_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(MiscalError, match="does not exist"):
        write_text(tmp_path / "none" / "page.html", "x")
    with pytest.raises(MiscalError, match="it is a folder"):
        write_text(tmp_path, "x")
    with pytest.raises(MiscalError, match="cannot be read"):
        read_json(tmp_path / "absent.json")


def test_markdown_holds_the_verdict_the_findings_and_the_columns() -> None:
    text = to_markdown(SAMPLE)
    assert text.startswith("# Predictions are too high: 25.1% predicted, 22.6% observed.\n")
    assert "## Where the model is miscalibrated" in text
    assert "## Column by column" in text
    assert "No significant gap: gate, crew base." in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.count("|") in (6, 7, 13) for line in tables)


def test_the_page_says_when_the_predicted_class_is_judged() -> None:
    document = copy.deepcopy(SAMPLE)
    assert "compared with accuracy" not in to_html(document)
    document["sections"]["score"][0]["settings"]["target"] = "top"
    assert "confidence in the predicted class, compared with accuracy" in to_html(document)


def test_a_column_named_as_its_role_is_said_once_in_the_masthead() -> None:
    def masthead(**more: Any) -> str:
        data = {"rows": 9, "outcome": "late", "probability": "probability"}
        page = to_html({"schema": "miscal.audit/1", "data": data, **more})
        return re.sub("<[^>]*>", "", page[page.index("<header") : page.index("</header>")])

    assert masthead().endswith("outcome late probability")
    assert " ".join(masthead(repaired_by={"name": "x"}).split()).endswith("recalibrated probability")


def test_the_codes_of_findings_are_explained_above_the_first_card() -> None:
    page = to_html(SAMPLE)
    assert page.index("MC101 to MC601: finding codes") < page.index('class="badge"')


def test_a_date_in_the_title_of_a_card_stays_on_one_line() -> None:
    finding = SAMPLE["findings"][0] | {"where": "day 2013-08-26 to 2013-11-24", "parent": None}
    page = to_html(SAMPLE | {"findings": [finding]})
    assert 'day <span class="date">2013-08-26</span> to <span class="date">2013-11-24</span>' in page
    assert ".date { white-space: nowrap; }" in page


def test_columns_come_by_their_largest_finding_and_clean_ones_last() -> None:
    def result(column: str, value: float) -> dict[str, Any]:
        return {"settings": {"column": column}, "value": value, "noise_floor": 0.01, "p_value": 0.5, "table": {}}

    def finding(columns: list[str], low: float, weight: float, real: bool = True) -> dict[str, Any]:
        return {"columns": columns, "interval": [low, low + 0.1], "weight": weight, "real": real, "kind": "field"}

    document = {
        "sections": {
            "field": [result(*entry) for entry in zip("abcdef", [0.9, 0.01, 0.02, 0.5, 0.3, 0.8], strict=True)]
        },
        "findings": [
            finding(["b"], 0.02, 1000.0),  # 20 events for certain
            finding(["c"], 0.001, 50_000.0),  # 50
            finding(["d"], -0.05, 100.0),  # the interval holds 0
            finding(["e", "b"], 0.5, 1e6),  # a combination says less of each column than a finding of its own
            finding(["f"], 0.5, 1e6, real=False),
        ],
    }
    assert [entry.column for entry in entries(audited(**document))] == ["c", "b", "d", "e", "a", "f"]


def test_a_p_value_at_the_end_of_its_simulation_is_a_bound() -> None:
    rng = np.random.default_rng(0)
    rows = 3000
    x = rng.integers(0, 5, rows).astype(float)
    p = np.full(rows, 0.3)
    y = rng.random(rows) < 0.1 + 0.1 * x
    x[rng.random(rows) < 0.05] = np.nan
    who = np.arange(rows) // 10  # with clusters there is nothing finer than the draws
    options = {"outcome": "y", "probability": "p", "cluster": "who", "effort": "quick"}
    found = miscal.audit({"y": y, "p": p, "x": x, "who": who}, **options)
    result = found.document["sections"]["variable"][0]
    assert result["p_value"] == pytest.approx(0.001)  # 1 of 1,000 draws
    assert result["extra"]["p_least"] == pytest.approx(0.001)
    row = to_html(found.document).split('id="columns-table"')[1].split("</tr>")[1]
    assert "≤ 0.001" in row
    assert "| ≤ 0.001 |" in found.to_markdown()
    assert "p <= 0.001" in found.results[1].sentence()
    calm = miscal.audit({"y": rng.random(rows) < p, "p": p, "x": x, "who": who}, **options)
    assert "p_least" not in calm.document["sections"]["variable"][0]["extra"]


GARBAGE: list[Any] = [
    None,
    "x",
    "²-³",
    -1,
    2.5,
    True,
    10**400,
    [],
    {},
    [None],
    [[1, [2]]],
    {"a": {"b": []}},
    [{"x": 1}],
]


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where values stand in a document, the first few of each list."""
    keys = (
        list(value) if isinstance(value, dict) else list(range(min(len(value), 3))) if isinstance(value, list) else []
    )
    return [place for key in keys for place in ((*path, key), *places_of(value[key], (*path, key)))]


def rich_document() -> dict[str, Any]:
    """The sample with every part that a page can have."""
    document = copy.deepcopy(SAMPLE)
    document["sections"] |= {kind: document["sections"][kind][:2] for kind in ("variable", "field")}
    document["findings"] = document["findings"][:6]
    before = {"gap": 0.1, "interval": [0.05, 0.15], "rows": 90, "p_value": 0.01}
    curve = {"label": "full population", "x": [0.0, 1.0], "y": [0.0, 0.1], "band": [0.0, 0.02]}
    table = {"label": ["full population"], "rows": [9], "predicted": [0.1], "deviations": [4.0], "p_adjusted": [0.1]}
    grid = {"x": [0, 1], "y": [0, 1], "gap": [[0.1]], "deviations": [[3.0]], "rows": [[5]]}
    document["sections"]["subpopulation"] = [
        {"table": table, "extra": {"cumulative": [curve], "null_mean": 2.0}, "settings": {}}
    ]
    document["sections"]["neighbourhood"] = [{"extra": {"grid": grid}, "settings": {"columns": ["u", "v"]}}]
    document["sections"]["field"][0]["extra"]["differences"] = {"level": ["a"], "difference": [0.1], "rows": [5]}
    document["sections"]["variable"][0]["extra"] |= {"integer": True, "worst": {"cell": 2}, "p_least": 0.001}
    document["sections"]["variable"][1]["extra"] |= {"column_kind": "date", "worst": {"where": "x", "gap": 0.2}}
    document["comparison"] = {
        "paired": True, "better": ["a"], "worse": [], "new": ["n"], "gone": ["g"],
        "table": {"where": ["a"], "verdict": ["better"], "gap_before": [0.1], "gap_after": [0.0], "p_adjusted": [0.01]},
    }  # fmt: skip
    document["repair"] = [{"where": "a", "kind": "field", "verdict": "gone", "before": before, "after": before}]
    document["repaired_by"] = {
        "name": "Platt", "reason": "r", "rows": 9, "fitted_rows": 9, "score": {"expected": [0.1, 0.01]},
        "log_loss_change": {"value": -0.1, "interval": [-0.2, 0.0]}, "candidates": {"name": ["a", "b"], "by x": [1, 2]},
    }  # fmt: skip
    document["notes"] = ["note"]
    return document


RICH = rich_document()
PLACES = places_of(RICH)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(GARBAGE)), min_size=1, max_size=4))
@example([(("sections", "period", 0, "table", "verdict", 0), [])])
def test_a_damaged_document_makes_a_page_or_is_refused(damages: list[tuple[tuple[Any, ...], Any]]) -> None:
    document = copy.deepcopy(RICH)
    for path, garbage in damages:
        at: Any = document
        try:
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = garbage
        except (KeyError, IndexError, TypeError):  # gone by an earlier damage
            continue
    try:
        page = to_html(document)
    except MiscalError:
        with pytest.raises(
            MiscalError, match=r"must be an audit's dictionary|does not follow its schema: |'condition'"
        ):
            to_html(document)
        return
    assert Page(page).of("h1")
    assert to_markdown(document).startswith("# ")
    judge(document, Gates(max_gap=0.1, max_multicalibration_sigma=3.0, max_findings=2), document)


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({"findings": "none"}, "findings must be a list, got 'none'"),
        ({"findings": [{"gap": "large"}]}, r"findings\[0\].gap must be a number or null, got 'large'"),
        ({"sections": {"field": {}}}, "sections.field must be a list"),
        ({"notes": [3]}, r"notes\[0\] must be text, got 3"),
        ({"unlisted": 1.5}, "unlisted must be an integer, got 1.5"),
        ({"findings": [{"form": "wavy"}]}, "must be one of 'too high'"),
        ({"findings": [{"interval": [0.1]}]}, "must have 2 items, got 1"),
    ],
)
def test_a_part_of_another_type_is_an_error_that_names_it(part: dict[str, Any], fault: str) -> None:
    with pytest.raises(MiscalError, match=fault):
        to_html({"schema": "miscal.audit/1", **part})


@pytest.mark.parametrize("part", ["data", "settings", "score", "findings", "sections"])
@pytest.mark.parametrize("garbage", [None, 5, "x"])
def test_a_baseline_with_a_part_of_another_kind_is_refused(tmp_path: Path, part: str, garbage: Any) -> None:
    write_json(SAMPLE | {part: garbage}, tmp_path / "a.json")
    with pytest.raises(MiscalError, match=f"is damaged; it has no '{part}'"):
        miscal.Audit.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "outcomes simulated from the predictions"),
        ({"response": "count"}, "sign flips of the residuals"),
        ({"cluster": "patient"}, "computed from sums over whole clusters"),
    ],
)
def test_the_method_says_which_noise_it_was(data: dict[str, Any], said: str) -> None:
    page = to_html({**SAMPLE, "data": {**SAMPLE["data"], **data}})
    assert said in page
    assert page.count("simulated from the predictions") == (not data)


def test_all_of_the_prose_is_said() -> None:
    prose = tomllib.loads(asset("prose.toml"))
    code = "".join(path.read_text(encoding="utf-8") for path in Path(miscal.__file__).parent.glob("report/**/*.py"))
    shown = to_html(RICH)
    for name in ("numbers", "repaired", "headings"):  # by the keys of what is shown
        prose.pop(name)
    assert {key for said in prose.values() for key in said if not re.search(f"""["']{key}["']""", code)} == set()
    assert prose["closing"]["clean"] in shown
