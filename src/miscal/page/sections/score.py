"""The score: the reliability diagram, the running total, and every number about the whole model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from miscal.auditing.measures import level, measure
from miscal.page import figures, words
from miscal.page.markup import Safe, tag
from miscal.page.reading import Document, cells, items, mapping
from miscal.page.sections.figures import figure

_Writer = Callable[[object], str]
_LOSS = "lower is better; calibration and sharpness together"
#: Key of the dictionary, label, how to write it, what it means.
NUMBERS: tuple[tuple[str, str, _Writer, str], ...] = (
    ("expected", "Average error along the score", words.percent, "mean of |predicted − happened| over bins"),
    ("maximum", "Largest error of a bin", words.percent, "the worst bin of the score"),
    ("smooth", "Smooth calibration error", words.percent, "the same without bins"),
    ("kuiper", "Kuiper range", words.percent, "largest error over any stretch of scores"),
    ("integrated", "Integrated calibration index", words.percent, "mean distance of a smooth curve from the diagonal"),
    ("ratio", "Predicted / happened", words.number, "1 is right, above 1 too much was predicted"),
    ("in_the_large", "Calibration in the large", words.number, "0 is right; shift of the log-odds that is needed"),
    ("slope", "Slope", words.number, "1 is right; below 1 the scores are too extreme"),
    ("intercept", "Intercept", words.number, "0 is right when the slope is 1"),
    ("brier", "Mean squared error of the probabilities", words.number, _LOSS),
    ("log_loss", "Logarithmic loss", words.number, _LOSS),
    ("auc", "Ranking: chance that events score higher", words.number, "0.5 is chance, 1 is perfect"),
)  # fmt: skip


def score(document: Document) -> Safe:
    """The section on the score."""
    results = [mapping(item) for item in items(mapping(document.get("sections")).get("score"))]
    alpha = level(document)
    return tag(
        "section",
        tag("h2", "Along the score"),
        tag("div", _figures(results[0], alpha), class_="pair") if results else None,
        [_further(result, alpha) for result in results[1:]],
        _numbers(mapping(document.get("score"))),
        id="score",
    )


def _further(result: Mapping[str, Any], alpha: float) -> Safe:
    """Another score of the same audit, a class for instance, folded away."""
    return tag(
        "details", tag("summary", str(result.get("name", ""))), tag("div", _figures(result, alpha), class_="pair")
    )


def _figures(result: Mapping[str, Any], alpha: float) -> list[Safe]:
    many = len(cells(result))
    reliability = figure(
        figures.reliability(result, alpha),
        f"Each dot is one of {many} bins of the score. A dot on the diagonal is right. The shaded band is where a "
        "perfectly calibrated model's dots fall 95 times in 100. The bars show how the scores are spread.",
    )
    if not figures.has_cumulative(result):
        return [reliability]
    cumulative = figure(
        figures.cumulative(result),
        "Where the line climbs too much was predicted, where it falls too little. Noise alone keeps each point of it "
        "in the shaded band 95 times in 100. Its range is the Kuiper range.",
    )
    return [reliability, cumulative]


def _numbers(score_: Mapping[str, Any]) -> Safe:
    known = [(entry, measure(score_, entry[0])) for entry in NUMBERS]
    known = [(entry, number) for entry, number in known if number.known]
    if not known:
        return Safe("")
    rows: list[Safe] = []
    for (_, label, write, meaning), number in known:
        rows.append(
            tag(
                "tr",
                tag("th", label, tag("small", meaning), scope="row"),
                tag("td", write(number.value), class_="number strong", data_label="Value"),
                _cell("Noise alone", write(number.noise_floor)),
                _cell("95% interval", words.interval(number.low, number.high, write) or words.NOTHING),
                _cell("p-value", words.p_cell(number.p_value, number.least)),
            )
        )
    headings = ["Number", "Value", "Noise alone", "95% interval", "p-value"]
    head = [tag("th", word, scope="col", class_="number" if word != "Number" else None) for word in headings]
    table = tag(
        "table",
        tag("caption", "The whole model in numbers"),
        tag("thead", tag("tr", head)),
        tag("tbody", rows, data_fold=4),
    )
    return tag("div", tag("div", table, class_="scroller"), class_="sheet-block")


def _cell(label: str, text: str) -> Safe:
    return tag("td", text, class_="number none" if text == words.NOTHING else "number", data_label=label)
