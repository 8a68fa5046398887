"""Markup escapes by construction, words read well, scales land on round numbers."""

from __future__ import annotations

import itertools
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miscal.report import wording
from miscal.report.html.marks import Chart, Scale, nice
from miscal.report.html.markup import Safe, clean, ellipsis, escape, name, tag


class Reader(HTMLParser):
    """Keeps the elements, the attributes and the text that a browser would see."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, element: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((element, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(st.text())
def test_any_text_comes_back_as_text_and_as_attribute(text: str) -> None:
    reader = read(tag("p", text, title=text))
    assert [element for element, _ in reader.elements] == ["p"]
    assert reader.text == clean(text)
    assert reader.elements[0][1] == {"title": clean(text)}


def test_markup_is_not_escaped_twice() -> None:
    inner = tag("b", "a & b")
    assert tag("p", inner, " < c") == "<p><b>a &amp; b</b> &lt; c</p>"
    assert escape(inner) is inner
    assert isinstance(tag("p", [inner, None]), Safe)


def test_a_long_name_is_shortened_with_the_whole_in_its_title() -> None:
    long = "x" * 500 + "end"
    reader = read(name(long, 40))
    assert reader.elements == [("bdi", {"title": ellipsis(long, 400)})]
    assert len(reader.text) == 40
    assert reader.text.endswith("end")


@given(st.text(max_size=60), st.integers(3, 40))
def test_ellipsis_keeps_its_limit(text: str, limit: int) -> None:
    assert len(ellipsis(text, limit)) <= limit


@pytest.mark.parametrize(
    ("write", "value", "shown"),
    [
        (wording.percent, 0.2412, "24.1%"),
        (wording.percent, 0.000123, "0.012%"),
        (wording.percent, -0.031, "−3.10%"),
        (wording.percent, float("nan"), "—"),
        (wording.points, 0.0, "0 pp"),
        (wording.points, -0.12, "−12 pp"),
        (wording.number, 1234567, "1,234,567"),
        (wording.number, -1e-7, "−1e-07"),
        (wording.number, "text", "—"),
        (wording.count, None, "—"),
        (wording.events_off, 65.2, "65 more predicted than observed"),
        (wording.events_off, -3.21, "3.2 more observed than predicted"),
        (wording.p_value, 0.001, "p ≤ 0.001"),
        (wording.p_value, 0.0994, "p = 0.099"),
        (wording.p_cell, 0.25, "0.25"),
    ],
)
def test_numbers_in_words(write: object, value: object, shown: str) -> None:
    assert callable(write)
    assert write(value) == shown


def test_a_scale_is_monotone_and_clips() -> None:
    scale = Scale(0.001, 0.9, 10.0, 310.0)
    pixels = scale(np.linspace(0.001, 0.9, 100))
    assert pixels[0] == 10.0
    assert pixels[-1] == 310.0
    assert (np.diff(pixels) > 0).all()
    assert scale(-5.0) == 10.0
    assert scale(7.0) == 310.0


@given(st.floats(1e-6, 0.4), st.floats(0.01, 0.59))
def test_ticks_lie_inside_and_apart(low: float, width: float) -> None:
    scale = Scale(low, low + width, 0.0, 400.0)
    ticks = scale.ticks(50.0)
    assert all(low - 1e-9 <= tick <= low + width + 1e-9 for tick in ticks)
    assert (np.diff(scale(ticks)) >= 50.0 - 1e-6).all()


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_nice_ends_hold_the_range(low: float, width: float) -> None:
    start, end = nice(low, low + width)
    assert start <= low + 1e-6 * (abs(low) + width)
    assert end >= low + width - 1e-6 * (abs(low) + width)


def test_a_line_leaves_out_what_is_not_a_number() -> None:
    def drawn(x: list[float], y: list[float]) -> str:
        chart = Chart(Scale(0.0, 2.0, 0.0, 2.0), Scale(0.0, 2.0, 0.0, 2.0))
        chart.line(x, y, "x")
        return "".join(chart.marks)

    assert 'points="0,0 2,2"' in drawn([0, 1, 2], [0, np.nan, 2])
    assert drawn([0], [np.nan]) == ""


@given(st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=20))
def test_names_under_an_axis_never_touch_and_the_last_one_stands(named: list[str]) -> None:
    chart = Chart(Scale(0.0, len(named), 50.0, 350.0), Scale(0.0, 1.0, 100.0, 0.0))
    chart.names(np.arange(len(named)) + 0.5, named, 120.0)
    found = [ElementTree.fromstring(mark) for mark in chart.marks]
    ends = sorted((float(e.attrib["x"]) - 3.4 * len(e.text or ""), len(e.text or "")) for e in found)
    assert all(left + 6.8 * letters < right for (left, letters), (right, _) in itertools.pairwise(ends))
    assert named[-1] in [e.text for e in found]
