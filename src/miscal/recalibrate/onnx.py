"""A fitted map as an ONNX model: single-precision in and out, double precision inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miscal.data.errors import MissingExtra
from miscal.recalibrate import formula as nodes
from miscal.recalibrate.base import Recalibrator

OPSET = 17


def to_onnx(recalibrator: Recalibrator) -> bytes:
    """The map as a serialised ONNX model: input `probability` (n,) float32, output `recalibrated` (n, 2) float32.

    Needs the onnx extra. The arithmetic inside is double, so only the rounding of input and output to single precision
    remains.
    """
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise MissingExtra("writing an ONNX model", "onnx", "onnx") from error
    graph = _Graph()
    wide = graph.add("Cast", ["probability"], to=TensorProto.DOUBLE)
    event = graph.write(nodes.formula(recalibrator), wide)
    rest = graph.add("Sub", [graph.constant(1.0), event])
    axes = graph.constant(np.array([1], dtype=np.int64))
    both = graph.add("Concat", [graph.add("Unsqueeze", [rest, axes]), graph.add("Unsqueeze", [event, axes])], axis=1)
    graph.nodes.append(helper.make_node("Cast", [both], ["recalibrated"], to=TensorProto.FLOAT))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "recalibrator",
            [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["rows"])],
            [helper.make_tensor_value_info("recalibrated", TensorProto.FLOAT, ["rows", 2])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="miscal",
    )
    checker.check_model(model)
    return bytes(model.SerializeToString())


class _Graph:
    """Nodes and constants under construction; every method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def write(self, node: Any, p: str) -> str:
        """Write a node's arithmetic; `p` is the name of the probability."""
        return p if isinstance(node, nodes.Probability) else _WRITERS[type(node)](self, node, p)

    def looked_up(self, values: np.ndarray, place: str) -> str:
        """values[place]."""
        return self.add("Gather", [self.constant(values), place])

    def count_below(self, edges: np.ndarray, score: str, kind: str) -> str:
        """How many edges lie below each score ("Greater"), or at or below it ("GreaterOrEqual")."""
        from onnx import TensorProto

        wide = self.add("Unsqueeze", [score, self.constant(np.array([1], dtype=np.int64))])
        above = self.add("Cast", [self.add(kind, [wide, self.constant(edges)])], to=TensorProto.INT64)
        return self.add("ReduceSum", [above, self.constant(np.array([1], dtype=np.int64))], keepdims=0)


def _held(graph: _Graph, node: nodes.Held, p: str) -> str:
    return graph.add("Clip", [graph.write(node.inner, p), graph.constant(node.low), graph.constant(node.high)])


def _moved(graph: _Graph, node: nodes.Moved, p: str) -> str:
    inner = graph.write(node.inner, p)
    low = graph.add("LessOrEqual", [inner, graph.constant(0.0)])
    high = graph.add("GreaterOrEqual", [inner, graph.constant(1.0)])
    moved = graph.add("Where", [high, graph.constant(1.0 - node.clip), inner])
    return graph.add("Where", [low, graph.constant(node.clip), moved])


def _log(graph: _Graph, node: nodes.Log, p: str) -> str:
    inner = graph.write(node.inner, p)
    return graph.add("Log", [graph.add("Sub", [graph.constant(1.0), inner]) if node.of_rest else inner])


def _linear(graph: _Graph, node: nodes.Linear, p: str) -> str:
    total = graph.constant(node.intercept)
    for factor, inner in node.terms:
        total = graph.add("Add", [total, graph.add("Mul", [graph.constant(factor), graph.write(inner, p)])])
    return total


def _sigmoid(graph: _Graph, node: nodes.Sigmoid, p: str) -> str:
    return graph.add("Sigmoid", [graph.write(node.inner, p)])


def _steps(graph: _Graph, node: nodes.Steps, p: str) -> str:
    score = graph.write(node.inner, p)
    place = graph.count_below(np.array(node.edges, dtype=np.float64), score, "Greater")
    values = np.array([-1.0 if value is None else value for value in node.values])
    found = graph.looked_up(values, place)
    empty = graph.add("Less", [found, graph.constant(0.0)])
    return graph.add("Where", [empty, score, found])


def _line(graph: _Graph, node: nodes.Line, p: str) -> str:
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


def _ratio(graph: _Graph, node: nodes.Ratio, p: str) -> str:
    inner = graph.write(node.inner, p)
    rest = graph.add("Div", [graph.add("Sub", [graph.constant(1.0), inner]), graph.constant(node.rate)])
    return graph.add("Div", [inner, graph.add("Add", [inner, rest])])


_WRITERS: dict[type, Callable[..., str]] = {
    nodes.Held: _held,
    nodes.Moved: _moved,
    nodes.Log: _log,
    nodes.Linear: _linear,
    nodes.Sigmoid: _sigmoid,
    nodes.Steps: _steps,
    nodes.Line: _line,
    nodes.Ratio: _ratio,
}
