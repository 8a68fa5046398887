"""The parts of an ONNX graph that look at columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.recalibrate.export import formula as nodes

MOST_KEYS = 1_000_000  # combinations of levels
UNSEEN, MISSING, FIRST = 0, 1, 2  # codes of levels in a graph
FLOAT, INT64, STRING, BOOL, DOUBLE = 1, 7, 8, 9, 11  # kinds of tensors, as ONNX counts them


def _each_row(graph: Any, node: Any, p: str) -> str:
    """A node's value, one a row even if it is a constant."""
    shape = graph.once("rows", lambda: graph.add("Shape", [p]))
    return str(graph.add("Expand", [graph.write(node, p), shape]))


def _number(graph: Any, node: nodes.Number, p: str) -> str:  # noqa: ARG001
    def write() -> str:
        column = graph.input(node.name, DOUBLE)
        held = graph.add("Clip", [column, graph.constant(node.low), graph.constant(node.high)])
        return str(graph.add("Where", [graph.add("IsNaN", [column]), graph.constant(node.missing), held]))

    return str(graph.once(node, write))


def _codes(graph: Any, name: str, levels: Sequence[Any]) -> str:
    """The code of each row's level: 0 unseen, 1 missing, from 2 on the levels in their order."""
    levels = [level for level in levels if level is not None]
    return str(graph.once(("codes", name, tuple(levels)), lambda: _written_codes(graph, name, levels)))


def _written_codes(graph: Any, name: str, levels: list[Any]) -> str:
    if levels and all(isinstance(level, bool) for level in levels):
        table = np.full(2, UNSEEN, dtype=np.int64)
        for i, level in enumerate(levels):
            table[int(level)] = FIRST + i
        return str(graph.looked_up(table, graph.add("Cast", [graph.input(name, BOOL)], to=INT64)))
    if all(isinstance(level, str) for level in levels):
        if "" in levels:
            got = "the empty string, which stands for missing in ONNX, is a level"
            raise refusal("cannot be written in ONNX", where=f"the column '{name}'", got=got)
        keys, values = ["", *levels], [MISSING, *range(FIRST, FIRST + len(levels))]
        options = {"keys_strings": keys, "values_int64s": values, "default_int64": UNSEEN, "domain": "ai.onnx.ml"}
        return str(graph.add("LabelEncoder", [graph.input(name, STRING)], **options))
    if not all(isinstance(level, (int, float)) and math.isfinite(level) for level in levels):
        raise refusal("cannot be written in ONNX", where=f"the column '{name}'", got="its levels are of mixed types")
    column = graph.input(name, DOUBLE)
    last = graph.constant(np.array([1], dtype=np.int64))
    equal = graph.add("Equal", [graph.add("Unsqueeze", [column, last]), graph.constant(np.array(levels, dtype=float))])
    places = graph.constant(np.arange(FIRST, FIRST + len(levels), dtype=np.int64))
    code = graph.add("ReduceSum", [graph.add("Mul", [graph.add("Cast", [equal], to=INT64), places]), last], keepdims=0)
    return str(graph.add("Where", [graph.add("IsNaN", [column]), graph.constant(np.int64(MISSING)), code]))


def _level(graph: Any, node: nodes.Level, p: str) -> str:  # noqa: ARG001
    def write() -> str:
        codes = _codes(graph, node.name, [level for level, _ in node.values])
        table = np.array([node.unseen, node.missing, *(value for _, value in node.values)], dtype=np.float64)
        return str(graph.looked_up(table, codes))

    return str(graph.once(node, write))


def _cut(graph: Any, node: nodes.Cut, p: str) -> str:
    test = graph.add("LessOrEqual", [graph.write(node.column, p), graph.constant(node.threshold)])
    return str(graph.add("Where", [test, graph.write(node.left, p), graph.write(node.right, p)]))


def _polynomial(graph: Any, node: nodes.Polynomial, p: str) -> str:
    inner = graph.write(node.inner, p)
    power, total = inner, ""
    for i, factor in enumerate(node.factors):
        power = graph.add("Mul", [power, inner]) if i else inner
        term = graph.add("Mul", [graph.constant(factor), power])
        total = graph.add("Add", [total, term]) if i else term
    return total


def _match(graph: Any, node: nodes.Match, p: str) -> str:
    """The place of each row's key among the cases, then the value of that case."""
    keys = [key for key, _ in node.cases]
    place = graph.once(("place", node.names, tuple(keys)), lambda: _place(graph, node.names, keys))
    values = [node.otherwise, *(value for _, value in node.cases)]
    if all(isinstance(value, nodes.Linear) and not value.terms for value in values):
        return str(graph.looked_up(np.array([value.intercept for value in values]), place))
    last = graph.constant(np.array([1], dtype=np.int64))
    wide = [graph.add("Unsqueeze", [_each_row(graph, value, p), last]) for value in values]
    all_values, places = graph.add("Concat", wide, axis=1), graph.add("Unsqueeze", [place, last])
    return str(graph.add("Squeeze", [graph.add("GatherElements", [all_values, places], axis=1), last]))


def _place(graph: Any, names: tuple[str, ...], keys: list[tuple[Any, ...]]) -> str:
    """1 + the place of each row's key, 0 where it is none of them."""
    levels = [list(dict.fromkeys(key[j] for key in keys if key[j] is not None)) for j in range(len(names))]
    sizes = [FIRST + len(each) for each in levels]
    if math.prod(sizes) > MOST_KEYS:
        got = f"{math.prod(sizes):,} combinations of levels"
        raise refusal("is too large for ONNX", where="GroupWise", got=got, hint="use its JSON, or to_sql")
    codes = [{None: MISSING} | {level: FIRST + i for i, level in enumerate(each)} for each in levels]
    table = np.zeros(sizes, dtype=np.int64)
    for i, key in enumerate(keys):
        table[tuple(codes[j][level] for j, level in enumerate(key))] = i + 1
    place = ""
    for j, name in enumerate(names):
        code = _codes(graph, name, levels[j])
        if j:
            code = graph.add("Add", [graph.add("Mul", [place, graph.constant(np.int64(sizes[j]))]), code])
        place = code
    return str(graph.looked_up(table.reshape(-1), place))


def _mixed(graph: Any, node: nodes.Mixed, p: str) -> str:
    share = graph.write(node.share, p)
    inside = graph.add("Mul", [share, graph.write(node.inside, p)])
    rest = graph.add("Sub", [graph.constant(1.0), share])
    return str(graph.add("Add", [inside, graph.add("Mul", [rest, graph.write(node.outside, p)])]))


def _known(graph: Any, node: nodes.Known, p: str) -> str:
    out = graph.write(node.inside, p)
    for name, levels in node.levels:
        least = MISSING if None in levels else FIRST
        codes = _codes(graph, name, levels)
        table = np.array([False, least == MISSING] + [True] * sum(level is not None for level in levels))
        out = graph.add("Where", [graph.looked_up(table, codes), out, graph.constant(math.nan)])
    return str(out)


def _network(graph: Any, node: nodes.Network, p: str) -> str:  # noqa: ARG001
    last = graph.constant(np.array([1], dtype=np.int64))
    parts = [
        graph.add("Gather", [graph.constant(np.asarray(table, dtype=np.float64)), _codes(graph, name, levels)])
        for name, levels, table in node.embedded
    ]
    values, flags = [], []
    for name, centre, scale in node.numbers:
        column = graph.input(name, DOUBLE)
        absent = graph.add("IsNaN", [column])
        off = graph.add("Mul", [graph.add("Sub", [column, graph.constant(centre)]), graph.constant(scale)])
        held = graph.add("Clip", [off, graph.constant(-node.furthest), graph.constant(node.furthest)])
        single = graph.add("Cast", [graph.add("Cast", [held], to=FLOAT)], to=DOUBLE)  # as in training
        values.append(graph.add("Where", [absent, graph.constant(0.0), single]))
        flags.append(graph.add("Cast", [absent], to=DOUBLE))
    parts += [graph.add("Unsqueeze", [column, last]) for column in values + flags]
    x = graph.add("Concat", parts, axis=1)
    for i in range(0, len(node.layers), 2):
        weight, bias = graph.constant(np.ascontiguousarray(node.layers[i].T)), graph.constant(node.layers[i + 1])
        x = graph.add("Add", [graph.add("MatMul", [x, weight]), bias])
        x = graph.add("Relu", [x]) if i + 2 < len(node.layers) else x
    return str(graph.add("Squeeze", [x, last]))


def _named(graph: Any, node: nodes.Named, p: str) -> str:
    """The name means this value in the body alone: outside it, the name of a blend around this one is another."""
    value, key = graph.write(node.value, p), ("name", node.name)
    outer = graph.made.get(key)
    graph.made[key] = value
    written = str(graph.write(node.body, p))
    if outer is not None:
        graph.made[key] = outer
    return written


def _name(graph: Any, node: nodes.Name, p: str) -> str:  # noqa: ARG001
    return str(graph.made["name", node.name])


WRITERS: dict[type, Callable[[Any, Any, str], str]] = {
    nodes.Number: _number,
    nodes.Level: _level,
    nodes.Cut: _cut,
    nodes.Polynomial: _polynomial,
    nodes.Match: _match,
    nodes.Mixed: _mixed,
    nodes.Known: _known,
    nodes.Network: _network,
    nodes.Named: _named,
    nodes.Name: _name,
}
