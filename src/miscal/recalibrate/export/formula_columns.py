"""A fitted binary map that looks at columns as a formula of the probability and the columns, for SQL and ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from miscal.data.errors import refusal
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.export import formula as nodes

LARGEST = 1.7976931348623157e308

WHY_NOT = {
    "BinAndCycle": (
        "shifts the score hundreds of times, each time from where it then is",
        "ship its JSON, or fit MulticalibrationBoost, which does the same with a few rounds of trees",
    ),
    "LocalRecalibration": (
        "compares a row with the rows it was fitted on",
        "use apply_one, or `miscal apply`, or fit GroupWise or VariableTree to the same columns",
    ),
    "Augmentation": (
        "holds classifiers of another library",
        "export those, or fit MulticalibrationBoost, which is kept as plain trees",
    ),
    "NeuralCalibration": ("holds a module of your own", "export that by torch.onnx"),
}


def whole_formula(recalibrator: Recalibrator) -> Any:
    """The formula of any fitted binary recalibrator that has one, or a refusal that says why there is none."""
    writer = _BUILDERS.get(type(recalibrator).__name__)
    if writer is None or not recalibrator.is_fitted() or recalibrator.n_classes_ != 2 or recalibrator.identity_:
        name = type(recalibrator).__name__
        if name in WHY_NOT and recalibrator.is_fitted() and not recalibrator.identity_:
            why, instead = WHY_NOT[name]
            raise refusal("has no formula", where=name, got=f"it {why}", hint=instead)
        return nodes.formula(recalibrator)
    return writer(recalibrator)


def _columns(made: Any, missing: Callable[[Any], float]) -> list[Any]:
    """Each column as the number that trees cut; `missing` says what a missing number becomes."""
    found: list[Any] = []
    for coding in made._codings():  # noqa: SLF001
        if coding.nominal:
            places = tuple((level, float(i)) for i, level in enumerate(coding.levels) if level is not None)
            found.append(nodes.Level(coding.name, places, coding.low, coding.high))
        else:
            found.append(nodes.Number(coding.name, coding.low, coding.high, missing(coding)))
    return found


def _grown(tree: Any, root: int, columns: list[Any], leaf: Callable[[int], Any]) -> Any:
    """A tree of cuts; children come after their parents, so nodes are built from the last."""
    column, threshold, left, right = tree
    waiting, order = [root], []
    while waiting:
        node = waiting.pop()
        order.append(node)
        if left[node] >= 0:
            waiting += [int(left[node]), int(right[node])]
    made: dict[int, Any] = {}
    for node in reversed(order):
        if left[node] < 0:
            made[node] = leaf(node)
        else:
            cut = columns[column[node]], float(threshold[node])
            made[node] = nodes.Cut(*cut, made[int(left[node])], made[int(right[node])])
    return made[root]


def _arrays(made: Any) -> tuple[list[int], list[float], list[int], list[int]]:
    parts = (made.node_column_, made.node_threshold_, made.node_left_, made.node_right_)
    column, threshold, left, right = (part.tolist() for part in parts)
    return column, threshold, left, right


def _tree(made: Any) -> Any:
    columns = _columns(made, lambda _: LARGEST)
    return _grown(_arrays(made), 0, columns, lambda node: nodes.formula(made.leaves_[node]))


def _boosted(made: Any) -> Any:
    """Rounds of trees on the columns and the logit so far, each round's logit under a name."""
    from miscal.recalibrate.by_columns.multicalibration import EDGE

    if not made.rounds_:
        return nodes.Probability()
    columns = _columns(made, lambda coding: coding.high + 1.0 + abs(coding.high))
    held = nodes.Held(nodes.Probability(), EDGE, 1.0 - EDGE)
    value: Any = nodes.Linear(((1.0, nodes.Log(held)), (-1.0, nodes.Log(held, of_rest=True))), 0.0)
    tree, values = _arrays(made), made.node_value_.tolist()
    ends = [0, *made.ends_.tolist()]
    for i, scale in enumerate(made.scales_.tolist()):
        logit = nodes.Name(f"logit_{i}")
        trees = [
            _grown(tree, root, [*columns, logit], lambda node: nodes.Linear((), values[node]))
            for root in made.roots_[ends[i] : ends[i + 1]].tolist()
        ]
        total = nodes.Linear(((scale, logit), *((scale, each) for each in trees)), 0.0)
        value = nodes.Named(logit.name, value, total)
    return nodes.Sigmoid(value)


def _groups(made: Any) -> Any:
    if made.recalibrator.uses_columns:
        got = f"its groups hold {type(made.recalibrator).__name__}"
        raise refusal("has a formula if its groups' maps are of the score", where="GroupWise", got=got)
    names, width = tuple(str(name) for name in made.names_), len(made.names_)
    levels = [[level for level in each if level is not None] for each in made.levels_]
    levels = [[*each, None] if None in given else each for each, given in zip(levels, made.levels_, strict=True)]
    keys = made.keys_.reshape(-1, width).tolist()
    shares = (made.sizes_ / (made.sizes_ + made.strength_)).tolist()
    nothing = nodes.Linear((), 0.0)
    out: Any = nodes.formula(made.whole_[0])
    inside: list[tuple[Any, ...]] = []
    for depth in made._depths(width):  # noqa: SLF001
        at = [i for i, key in enumerate(keys) if key[depth - 1] >= 0 and all(code == -2 for code in key[depth:])]
        inside = [tuple(levels[j][keys[i][j]] for j in range(depth)) for i in at]
        own = tuple((key, nodes.formula(made.maps_[i])) for key, i in zip(inside, at, strict=True))
        share = tuple((key, nodes.Linear((), shares[i])) for key, i in zip(inside, at, strict=True))
        if at:
            part = nodes.Match(names[:depth], share, nothing), nodes.Match(names[:depth], own, nothing)
            out = nodes.Mixed(*part, out)
    if made.handle_unknown == "identity":
        known = nodes.Match(names, tuple((key, nodes.Linear((), 1.0)) for key in inside), nothing)
        out = nodes.Mixed(known, out, nodes.Probability()) if inside else nodes.Probability()
    if made.handle_unknown == "error":
        out = nodes.Known(tuple((name, tuple(each)) for name, each in zip(names, levels, strict=True)), out)
    return out


def _augmented(made: Any) -> Any:
    design, features = made._design(), made._features()  # noqa: SLF001
    own = features.count
    beta = made.coefficients_[0, own:]
    terms = list(_score_terms(features, made.coefficients_[0, :own].tolist()))
    at = 0
    for j, width in enumerate(design.widths):
        terms += [(1.0, part) for part in _part(design, j, beta[at : at + width].tolist())]
        at += width
    return nodes.Sigmoid(nodes.Linear(tuple(terms), float(made.intercepts_[0] - beta @ made.centres_)))


def _part(design: Any, j: int, beta: list[float]) -> list[Any]:
    """A column's part of the sum."""
    name, gone = design.names[j], beta[-1] if design.missing[j] else 0.0
    if design.nominal[j]:
        values = tuple(zip(design.levels[j], beta[: len(design.levels[j])], strict=True))
        return [nodes.Level(name, values, gone, 0.0)]
    most, spread = 10.0 ** (99.0 / design.degree), design.spreads[j]
    number = nodes.Number(name, -LARGEST, LARGEST, design.means[j])
    scaled = nodes.Linear(((1.0 / spread, nodes.Linear(((1.0, number),), -design.offsets[j])),), 0.0)
    found: list[Any] = [nodes.Polynomial(nodes.Held(scaled, -most, most), tuple(beta[: design.degree]))]
    return [*found, nodes.Number(name, 0.0, 0.0, gone)] if gone else found


def _score_terms(features: Any, factors: list[float]) -> tuple[tuple[float, Any], ...]:
    p: Any = nodes.Probability()
    if features.kind == "logit":
        p = nodes.Held(p, nodes.LOGIT_CLIP, 1.0 - nodes.LOGIT_CLIP)
    elif features.kind == "beta":
        p = nodes.Moved(p, features.clip)
    else:
        return ((factors[0], p),)
    return (factors[0], nodes.Log(p)), (-factors[-1], nodes.Log(p, of_rest=True))


def _neural(made: Any) -> Any:
    from miscal.recalibrate.by_columns.neural_inputs import FURTHEST

    parts = made.parts()
    if parts is None:
        why, instead = WHY_NOT["NeuralCalibration"]
        raise refusal("has no formula", where="NeuralCalibration", got=f"it {why}", hint=instead)
    values, tables, layers = parts
    described = list(zip(map(str, made.names_), made.nominal_, made.levels_, strict=True))
    words = [(name, tuple(levels)) for name, nominal, levels in described if nominal]
    embedded = tuple((*word, table) for word, table in zip(words, tables, strict=True))
    names = [name for name, nominal, _ in described if not nominal]
    numbers = tuple(zip(names, made.centre_.tolist(), made.scale_.tolist(), strict=True))
    line = nodes.Line(nodes.logit(), tuple(made.knots_.tolist()), tuple(values[0].tolist()), continued=True)
    network = nodes.Network(embedded, numbers, FURTHEST, tuple(layers))
    return nodes.Sigmoid(nodes.Linear(((1.0, line), (1.0, network)), 0.0))


def _chain(made: Any) -> Any:
    found = whole_formula(made.steps_[0])
    for step in made.steps_[1:]:
        found = nodes.Then(found, whole_formula(step))
    return found


def _blend(made: Any) -> Any:
    """The mean of the members' logits; each member has a name, because it is used twice."""
    names = [nodes.Name(f"member_{i}") for i in range(len(made.members_))]
    terms: list[tuple[float, Any]] = []
    for weight, name in zip(made.weights_.tolist(), names, strict=True):
        own, other = nodes.logs_of_classes(name)
        terms += [(weight, own), (-weight, other)]
    found: Any = nodes.Sigmoid(nodes.Linear(tuple(terms), 0.0))
    for name, member in zip(names, made.members_, strict=True):
        found = nodes.Named(name.name, whole_formula(member), found)
    return found


_BUILDERS: dict[str, Callable[[Any], Any]] = {
    "VariableTree": _tree,
    "GroupWise": _groups,
    "MulticalibrationBoost": _boosted,
    "AugmentedLogistic": _augmented,
    "AugmentedBeta": _augmented,
    "Blend": _blend,
    "Chain": _chain,
    "NeuralCalibration": _neural,
}
