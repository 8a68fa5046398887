"""A fitted map as an ONNX model: single-precision in and out, double precision inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miscal.data.errors import MissingExtra, refusal
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.export import onnx_columns
from miscal.recalibrate.export.formula_classes import Softmax, formula_of_classes
from miscal.recalibrate.export.formula_columns import whole_formula

OPSET = 17


def to_onnx(recalibrator: Recalibrator) -> bytes:
    """The map as a serialised ONNX model: input `probability` (n,) float32, output `recalibrated` (n, 2) float32.

    Of several classes both are (n, K).

    Maps that look at columns have one more input (n,) a column, under its name: numbers as float64 (NaN missing),
    words as strings (the empty string missing), truth values as booleans. Where `handle_unknown="error"` would raise,
    the output is NaN. Needs the onnx extra. The arithmetic inside is double, so only the rounding of probabilities to
    single precision remains.

    Parameters
    ----------
    recalibrator : fitted
        Of the score, or for two classes VariableTree, GroupWise, AugmentedLogistic, AugmentedBeta,
        MulticalibrationBoost.
    """
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise MissingExtra("writing an ONNX model", "onnx", "onnx") from error
    graph = Graph()
    wide = graph.add("Cast", ["probability"], to=TensorProto.DOUBLE)
    classes = recalibrator.n_classes_ if recalibrator.is_fitted() else 2
    several = classes > 2
    made = _of_classes(graph, recalibrator, wide) if several else _pair(graph, recalibrator, wide)
    graph.nodes.append(helper.make_node("Cast", [made], ["recalibrated"], to=TensorProto.FLOAT))
    rows = ["rows", classes] if several else ["rows"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "recalibrator",
            [
                helper.make_tensor_value_info("probability", TensorProto.FLOAT, rows),
                *(helper.make_tensor_value_info(name, kind, ["rows"]) for name, kind in graph.inputs.items()),
            ],
            [helper.make_tensor_value_info("recalibrated", TensorProto.FLOAT, ["rows", classes])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8,
        producer_name="miscal",
    )
    checker.check_model(model)
    return bytes(model.SerializeToString())


def _pair(graph: Graph, recalibrator: Recalibrator, p: str) -> str:
    """Both probabilities of two classes."""
    event = graph.write(whole_formula(recalibrator), p)
    return graph.side_by_side([graph.add("Sub", [graph.constant(1.0), event]), event])


def _of_classes(graph: Graph, recalibrator: Recalibrator, p: str) -> str:
    """The probabilities of several classes; `p` is the name of their matrix."""
    parts = formula_of_classes(recalibrator)
    if isinstance(parts, Softmax):
        low, high = graph.constant(nodes.LOGIT_CLIP), graph.constant(np.finfo(np.float64).max)
        logs = graph.add("Log", [graph.add("Clip", [p, low, high])])
        scores = graph.add("MatMul", [logs, graph.constant(np.ascontiguousarray(parts.slopes.T))])
        return graph.add("Softmax", [graph.add("Add", [scores, graph.constant(parts.shifts)])], axis=1)
    columns = [graph.add("Gather", [p, graph.constant(np.int64(k))], axis=1) for k in range(recalibrator.n_classes_)]
    values = graph.side_by_side([graph.write(node, q) for node, q in zip(parts.maps, columns, strict=True)])
    if not parts.divided:
        return values
    axis = graph.constant(np.array([1], dtype=np.int64))
    some = graph.add("Greater", [graph.add("ReduceSum", [values, axis]), graph.constant(0.0)])
    chosen = graph.add("Where", [some, values, p])
    return graph.add("Div", [chosen, graph.add("ReduceSum", [chosen, axis])])


class Graph:
    """Nodes and constants under construction; every method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: dict[str, int] = {}  # columns, and the kind of each
        self.made: dict[Any, str] = {}  # parts that several others use

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        name = f"miscal.v{len(self.nodes)}"  # a name that no column has
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        name = f"miscal.c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def write(self, node: Any, p: str) -> str:
        """Write a node's arithmetic; `p` is the name of the probability."""
        if isinstance(node, nodes.Probability):
            return p
        writer = onnx_columns.WRITERS.get(type(node)) or _WRITERS[type(node)]
        return writer(self, node, p)

    def input(self, name: str, kind: int) -> str:
        """A column as an input, under a name of its own in the graph."""
        if name in ("probability", "recalibrated") or self.inputs.setdefault(name, kind) != kind:
            raise refusal("cannot be an input beside the probability", where=f"the column '{name}'", hint="rename it")
        return name

    def once(self, key: Any, write: Callable[[], str]) -> str:
        """What is written the first time and used again."""
        if key not in self.made:
            self.made[key] = write()
        return self.made[key]

    def side_by_side(self, columns: list[str]) -> str:
        """Columns (n,) as a matrix."""
        axes = self.constant(np.array([1], dtype=np.int64))
        return self.add("Concat", [self.add("Unsqueeze", [column, axes]) for column in columns], axis=1)

    def looked_up(self, values: np.ndarray, place: str) -> str:
        """values[place]."""
        return self.add("Gather", [self.constant(values), place])

    def count_below(self, edges: np.ndarray, score: str, kind: str) -> str:
        """How many edges lie below each score ("Greater"), or at or below it ("GreaterOrEqual")."""
        from onnx import TensorProto

        wide = self.add("Unsqueeze", [score, self.constant(np.array([1], dtype=np.int64))])
        above = self.add("Cast", [self.add(kind, [wide, self.constant(edges)])], to=TensorProto.INT64)
        return self.add("ReduceSum", [above, self.constant(np.array([1], dtype=np.int64))], keepdims=0)


def _held(graph: Graph, node: nodes.Held, p: str) -> str:
    return graph.add("Clip", [graph.write(node.inner, p), graph.constant(node.low), graph.constant(node.high)])


def _moved(graph: Graph, node: nodes.Moved, p: str) -> str:
    inner = graph.write(node.inner, p)
    low = graph.add("LessOrEqual", [inner, graph.constant(0.0)])
    high = graph.add("GreaterOrEqual", [inner, graph.constant(1.0)])
    moved = graph.add("Where", [high, graph.constant(1.0 - node.clip), inner])
    return graph.add("Where", [low, graph.constant(node.clip), moved])


def _log(graph: Graph, node: nodes.Log, p: str) -> str:
    inner = graph.write(node.inner, p)
    return graph.add("Log", [graph.add("Sub", [graph.constant(1.0), inner]) if node.of_rest else inner])


def _linear(graph: Graph, node: nodes.Linear, p: str) -> str:
    total = graph.constant(node.intercept)
    for factor, inner in node.terms:
        total = graph.add("Add", [total, graph.add("Mul", [graph.constant(factor), graph.write(inner, p)])])
    return total


def _sigmoid(graph: Graph, node: nodes.Sigmoid, p: str) -> str:
    return graph.add("Sigmoid", [graph.write(node.inner, p)])


def _steps(graph: Graph, node: nodes.Steps, p: str) -> str:
    score = graph.write(node.inner, p)
    place = graph.count_below(np.array(node.edges, dtype=np.float64), score, "Greater")
    values = np.array([-1.0 if value is None else value for value in node.values])
    found = graph.looked_up(values, place)
    empty = graph.add("Less", [found, graph.constant(0.0)])
    return graph.add("Where", [empty, score, found])


def _line(graph: Graph, node: nodes.Line, p: str) -> str:
    score = graph.write(node.inner, p)
    knots, values = np.array(node.knots), np.array(node.values)
    if knots.size == 1:
        return graph.add("Add", [graph.add("Mul", [score, graph.constant(0.0)]), graph.constant(values[0])])
    if not node.continued:
        score = graph.add("Clip", [score, graph.constant(knots[0]), graph.constant(knots[-1])])
    place = graph.count_below(knots[1:-1], score, "GreaterOrEqual")
    slope = graph.looked_up(np.diff(values) / np.diff(knots), place)
    start = graph.add("Sub", [score, graph.looked_up(knots[:-1], place)])
    return graph.add("Add", [graph.looked_up(values[:-1], place), graph.add("Mul", [slope, start])])


def _ratio(graph: Graph, node: nodes.Ratio, p: str) -> str:
    inner = graph.write(node.inner, p)
    rest = graph.add("Div", [graph.add("Sub", [graph.constant(1.0), inner]), graph.constant(node.rate)])
    return graph.add("Div", [inner, graph.add("Add", [inner, rest])])


def _then(graph: Graph, node: nodes.Then, p: str) -> str:
    return graph.write(node.second, graph.write(node.first, p))


_WRITERS: dict[type, Callable[..., str]] = {
    nodes.Held: _held,
    nodes.Moved: _moved,
    nodes.Log: _log,
    nodes.Linear: _linear,
    nodes.Sigmoid: _sigmoid,
    nodes.Steps: _steps,
    nodes.Line: _line,
    nodes.Ratio: _ratio,
    nodes.Then: _then,
}
