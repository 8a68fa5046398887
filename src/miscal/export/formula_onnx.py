"""A fitted map as an ONNX model: double precision inside, double or single in and out."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal.data.checks import SUM_TOLERANCE
from miscal.data.errors import MissingExtra, refusal
from miscal.export import formula as nodes
from miscal.export.dialects import INT64_LIMIT

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

OPSET = 17
UNSEEN, MISSING, FIRST = 0, 1, 2  # codes of levels in a graph
FLOAT, INT64, STRING, BOOL, DOUBLE = 1, 7, 8, 9, 11  # kinds of tensors, as ONNX counts them
KINDS: dict[Any, int] = {bool: BOOL, float: DOUBLE, int: INT64, str: STRING}  # of columns of levels
SCORES = {"float64": DOUBLE, "float32": FLOAT}  # what they come in and go out as
COLUMNS = np.array([1], dtype=np.int64)  # the second axis


def to_onnx(recalibrator: "Recalibrator", dtype: Any) -> bytes:
    """The model of `Recalibrator.to_onnx`."""
    if dtype not in SCORES:
        raise refusal("must be 'float64' or 'float32'", "'dtype'", got=f"it is {dtype!r}")
    try:
        from onnx import checker, helper
    except ImportError as error:
        raise MissingExtra("writing an ONNX model", "onnx", "onnx") from error
    if recalibrator.predicts_means():
        raise refusal("writes probabilities", "'to_onnx'", got="this repairs means", hint="to_json or to_sql")
    found, outside, classes = recalibrator.formula(), SCORES[dtype], recalibrator.n_classes_
    graph = Graph(nodes.columns_of(found))
    wide = graph.add("Cast", "probability", to=DOUBLE)
    score = graph.add("Where", graph.add("Less", wide, nodes.LEAST_SCORE), 0.0, wide)
    made = graph.add("Where", _valid(graph, wide, classes), _written(graph, found, score), math.nan)
    graph.nodes.append(helper.make_node("Cast", [made], ["recalibrated"], to=outside))
    vector = helper.make_tensor_value_info
    one, each = ["rows"], ["rows", classes]
    inputs = [vector("probability", outside, each if classes > 2 else one)]
    inputs += [vector(name, kind, one) for name, kind in graph.inputs.items()]
    outputs = [vector("recalibrated", outside, each)]
    whole = helper.make_graph(graph.nodes, "recalibrator", inputs, outputs, graph.constants)
    versions = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(whole, opset_imports=versions, ir_version=8, producer_name="miscal")
    checker.check_model(model)
    return bytes(model.SerializeToString())


def _valid(graph: "Graph", p: str, classes: int) -> str:
    """Whether `predict_proba` takes a row, (rows, 1): within [0, 1], and of several classes with the sum 1."""
    add = graph.add
    lowest = highest = p
    if classes > 2:
        lowest = add("ReduceMin", p, axes=[1])
        highest = add("ReduceMax", p, axes=[1])
    above = add("GreaterOrEqual", lowest, 0.0)
    inside = add("And", above, add("LessOrEqual", highest, 1.0))
    if classes == 2:
        return graph.upright(inside)
    off = add("Abs", add("Sub", graph.summed(p), 1.0))
    return add("And", inside, add("LessOrEqual", off, SUM_TOLERANCE))


def _written(graph: "Graph", found: nodes.Formula, p: str) -> str:
    """The probabilities of all classes; `p` is the name of the event's, or of several classes' matrix."""
    add = graph.add
    if isinstance(found, nodes.Softmax):
        logs = add("Log", add("Clip", p, nodes.LOGIT_CLIP, nodes.LARGEST))
        slopes = found.slopes
        if found.power is not None:
            heated = add("Gemm", logs, found.power * np.eye(len(slopes)), np.zeros(len(slopes)))
            total = add("Log", graph.summed(add("Exp", heated)))
            logs = add("Sub", heated, total)
            slopes = slopes / found.power
        return add("Softmax", add("Gemm", logs, slopes.T, found.shifts), axis=1)
    if not isinstance(found, nodes.Each):
        event = graph.of(p, found)
        return graph.side_by_side([add("Sub", 1.0, event), event])
    classes = enumerate(found.maps)
    maps = [graph.of(add("Gather", p, np.int64(k), axis=1), node) for k, node in classes]
    values = graph.side_by_side(maps)
    if not found.divided:
        return values
    some = add("Greater", graph.summed(values), 0.0)
    chosen = add("Where", some, values, p)
    return add("Div", chosen, graph.summed(chosen))


class Graph:
    """Nodes and constants under construction; every method returns the name of its output.

    Each kind of node of a formula has a method of its name.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self.nodes: list[Any] = []
        self.own = "miscal."  # how names begin that are not a column's
        while any(name.startswith(self.own) for name in columns):
            self.own = f"_{self.own}"
        self.constants: list[Any] = []
        self.inputs: dict[str, int] = {}  # columns, and the kind of each
        self.made: dict[Any, str] = {}  # parts that several others use
        self.names: dict[str, str] = {}  # what values under names are called in the graph

    def add(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """One more step; inputs are names, or numbers that become constants."""
        from onnx import helper

        name = f"{self.own}v{len(self.nodes)}"
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"{self.own}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def of(self, p: str, node: Any) -> str:
        """Write a formula of the probability that has the name `p` in the graph."""
        self.names = {nodes.STEP: p}
        return self.write(node)

    def write(self, node: Any) -> str:
        """Write a node's arithmetic, that of a column once."""
        written = partial(getattr(self, f"_{type(node).__name__.lower()}"), node)
        return self.once(node, written) if isinstance(node, (nodes.Number, nodes.Level)) else str(written())

    def input(self, name: str, kind: int) -> str:
        """A column as an input, under a name of its own in the graph."""
        if name in ("", "probability", "recalibrated") or self.inputs.setdefault(name, kind) != kind:
            raise refusal(
                "cannot be an input beside the probability", f"the column '{name}'", hint="rename it"
            )
        return name

    def once(self, key: Any, write: Callable[[], str]) -> str:
        """What is written the first time and used again."""
        if key not in self.made:
            self.made[key] = write()
        return self.made[key]

    def matrix(self, parts: Iterable[Any]) -> str:
        """The values of nodes as a matrix, one a row even of constants."""
        rows = self.once("rows", lambda: self.add("Shape", "probability", end=1))
        return self.side_by_side([self.add("Expand", self.write(node), rows) for node in parts])

    def upright(self, column: str) -> str:
        """A column (n,) as a matrix (n, 1)."""
        return self.add("Unsqueeze", column, COLUMNS)

    def summed(self, matrix: str, **how: int) -> str:
        """Sums of rows."""
        return self.add("ReduceSum", matrix, COLUMNS, **how)

    def side_by_side(self, columns: list[str]) -> str:
        """Columns (n,) as a matrix."""
        return self.add("Concat", *map(self.upright, columns), axis=1)

    def _clipped(self, node: nodes.Clipped) -> str:
        return self.add("Clip", self.write(node.inner), node.low, node.high)

    def _log(self, node: nodes.Log | nodes.Exp | nodes.Sigmoid) -> str:
        return self.add(type(node).__name__, self.write(node.inner))

    _exp = _sigmoid = _log

    def _linear(self, node: nodes.Linear) -> str:
        if not node.terms:
            return self.constant(node.intercept)
        factors, parts = zip(*node.terms, strict=True)
        # In one step: onnxruntime takes a lone factor of 1 + 1e-6 for 1, and a lone summand of 1e-9 for 0.
        made = self.add("Gemm", self.matrix(parts), np.array(factors)[:, None], [node.intercept])
        return self.add("Squeeze", made, COLUMNS)

    def _pieces(self, node: nodes.Pieces) -> str:
        score = self.write(node.inner)
        above = self.add("Greater", self.upright(score), np.array(node.edges))
        place = self.summed(self.add("Cast", above, to=INT64), keepdims=0)
        start, value, slope = (self.add("Gather", part, place) for part in np.array(node.pieces).T)
        return self.add("Add", value, self.add("Mul", slope, self.add("Sub", score, start)))

    def _binaryop(self, node: nodes.BinaryOp) -> str:
        kind = "Mul" if node.sign == "*" else "Div"
        return self.add(kind, self.write(node.one), self.write(node.two))

    def _number(self, node: nodes.Number) -> str:
        column = self.input(node.name, DOUBLE)
        held = self.add("Clip", column, node.low, node.high)
        return self.add("Where", self.add("IsNaN", column), node.missing, held)

    def _level(self, node: nodes.Level) -> str:
        codes = self.once(("codes", node.name, *node.values), lambda: _codes(self, node))
        table = np.array([node.unseen, node.missing, *node.values.values()], dtype=np.float64)
        return self.add("Gather", table, codes)

    def _cut(self, node: nodes.Cut) -> str:
        test = self.add("LessOrEqual", self.write(node.column), node.threshold)
        return self.add("Where", test, self.write(node.left), self.write(node.right))

    def _match(self, node: nodes.Match) -> str:
        cases = self.matrix(node.cases)
        place = self.upright(self.add("Cast", self.write(node.level), to=INT64))
        return self.add("Squeeze", self.add("GatherElements", cases, place, axis=1), COLUMNS)

    def _refused(self, _: nodes.Refused) -> str:
        return self.constant(math.nan)

    def _network(self, node: nodes.Network) -> str:
        parts = [
            self.add("Gather", np.asarray(table, np.float64), _codes(self, level))
            for level, table in node.embedded
        ]
        if node.numbers:
            scaled = self.side_by_side([self.write(number) for number in node.numbers])
            absent = self.add("IsNaN", scaled)
            single = self.add("Cast", self.add("Cast", scaled, to=FLOAT), to=DOUBLE)  # as in training
            parts += [self.add("Where", absent, 0.0, single), self.add("Cast", absent, to=DOUBLE)]
        x = self.add("Concat", *parts, axis=1)
        for place, (weight, bias) in enumerate(zip(node.layers[::2], node.layers[1::2], strict=True)):
            x = self.add("Gemm", self.add("Relu", x) if place else x, weight.T, bias)
        return self.add("Squeeze", x, COLUMNS)

    def _named(self, node: nodes.Named) -> str:
        """The name means this value in the body alone: outside it, the name of a blend around this one is another."""
        value, outer = self.write(node.inner), self.names
        self.names = outer | {node.name: value}
        written = self.write(node.body)
        self.names = outer
        return written

    def _name(self, node: nodes.Name) -> str:
        return self.names[node.name]


def _codes(graph: Graph, node: nodes.Level) -> str:
    """The code of each row's level: 0 unseen, 1 missing, from 2 on the levels in their order."""
    add, kind, levels = graph.add, node.kind, list(node.values)
    places = FIRST + np.arange(len(levels), dtype=np.int64)
    got, hint = "", ""
    if kind is None:
        got = "its levels are of mixed types"
    elif kind is int and not all(
        isinstance(each, int) and -INT64_LIMIT <= each < INT64_LIMIT for each in levels
    ):
        got, hint = "its levels are not all 64-bit integers", "fit it as text"
    elif kind is str and "" in levels:
        got = "the empty string, which stands for missing in ONNX, is a level"
    if got:
        raise refusal("cannot be written in ONNX", f"the column '{node.name}'", got=got, hint=hint)
    column = graph.input(node.name, KINDS[kind])
    if kind is str:
        codes = {"keys_strings": ["", *levels], "values_int64s": [MISSING, *places], "default_int64": UNSEEN}
        return add("LabelEncoder", column, **codes, domain="ai.onnx.ml")
    # Whole numbers that doubles would merge are an input that has no missing values.
    column = column if kind is int else add("Cast", column, to=DOUBLE)
    known = np.array(levels, np.int64 if kind is int else np.float64)
    equal = add("Cast", add("Equal", graph.upright(column), known), to=INT64)
    code = graph.summed(add("Mul", equal, places), keepdims=0)
    if kind is int:
        return code
    return add("Where", add("IsNaN", column), np.int64(MISSING), code)
