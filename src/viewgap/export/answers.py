"""What each kind of method answers, as nodes: `add_answers` is the one entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.ensemble.estimator import Ensemble
from viewgap.ensemble.stacking import _PROB_EPS as STACKING_EPS
from viewgap.errors import SettingError
from viewgap.export.graph import Graph
from viewgap.export.preparation import ViewInput, prepare
from viewgap.export.tree_nodes import forest_mean, tree_sums
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.extra_trees import _Forests
from viewgap.methods.joint_boosting import JointBoosting
from viewgap.methods.late_fusion_ridge import LateFusionRidge
from viewgap.methods.linalg.blocks import SOFT_EDGE
from viewgap.methods.random_forest import RandomForest
from viewgap.methods.trees.view_models import ViewwiseClassifier
from viewgap.nn.pooling import LogOddsPooling
from viewgap.nn.pooling_posterior import PROB_EPS

CAN_BE = (
    "networks that predict row by row (SCSD and the deep methods with profile='default'), "
    "LateFusionRidge, ExtraTrees, GradientBoosting, JointBoosting, RandomForest, and an Ensemble "
    "of these"
)
_MOST_BYTES = 1 << 30  # of leaf values; a file of this format ends at 2 GiB


def add_answers(graph: Graph, model: MultiViewClassifier, rows: Sequence[ViewInput]) -> str:
    """Add the probabilities (b, c) in float64 of samples that have a view."""
    if isinstance(model, Ensemble):
        return _ensemble(graph, model, rows)
    if isinstance(model, LateFusionRidge):
        return _ridge(graph, model, rows)
    if isinstance(model, ViewwiseClassifier):
        return _viewwise(graph, model, rows)
    if isinstance(model, JointBoosting):
        return _joint_boosting(graph, model, rows)
    if isinstance(model, RandomForest):
        return _random_forest(graph, model, rows)
    if isinstance(model, DeepClassifier) and model.settings_.prediction == "row":
        return _network(graph, model, rows)
    raise SettingError(f"{_named(model)} cannot be exported; what can be: {CAN_BE}")


def _named(model: MultiViewClassifier) -> str:
    name = type(model).__name__
    if isinstance(model, DeepClassifier):
        return f"{name} with profile={model.profile!r} answers by batch and"
    return name


def _as_numbers(graph: Graph, rows: Sequence[ViewInput], dtype: Any) -> list[str]:
    return [graph.column(graph.cast(own.observed, dtype)) for own in rows]


def _ridge(graph: Graph, model: LateFusionRidge, rows: Sequence[ViewInput]) -> str:
    observed, parts = _as_numbers(graph, rows, np.float64), []
    for view, own in enumerate(rows):
        x = graph.cast(prepare(graph, view, own, model._scaler), np.float64)
        scores = graph.add("MatMul", x, graph.constant(model._weights[view]))
        scores = graph.add("Add", scores, graph.constant(model._intercepts[view]))
        parts.append(graph.add("Mul", scores, observed[view]))
    count = graph.add("Max", graph.total(observed), graph.constant(1.0, np.float64))
    return _soft_clip(graph, graph.add("Div", graph.total(parts), count))


def _soft_clip(graph: Graph, scores: str) -> str:
    edge, one = graph.constant(SOFT_EDGE, np.float64), graph.constant(1.0, np.float64)

    def bent(value: str) -> str:
        inner = graph.add("Div", graph.add("Min", value, edge), edge)
        return graph.add("Mul", edge, graph.add("Exp", graph.add("Sub", inner, one)))

    rest = graph.add("Sub", one, scores)
    upper = graph.add("Where", graph.add("Less", rest, edge),
                      graph.add("Sub", one, bent(rest)), scores)  # fmt: skip
    return graph.add("Where", graph.add("Less", scores, edge), bent(scores), upper)


def _log_odds(graph: Graph, probability: str, eps: float) -> str:
    low, high = graph.constant(eps, np.float64), graph.constant(1.0 - eps, np.float64)
    bounded = graph.add("Clip", probability, low, high)
    other = graph.add("Sub", graph.constant(1.0, np.float64), bounded)
    return graph.add("Sub", graph.add("Log", bounded), graph.add("Log", other))


def _pooled(
    graph: Graph, pooling: LogOddsPooling, answers: Sequence[str], observed: Sequence[str]
) -> str:
    """`nn.pooling.LogOddsPooling` of probabilities m times (b, c) in float64."""
    state = {name: v.cpu().double().numpy() for name, v in pooling.state_dict().items()}
    prior, parts, counts = graph.constant(state["prior"]), [], []
    zero = graph.constant(0.0, np.float64)
    for view, own in enumerate(answers):
        evidence = graph.add("Sub", _log_odds(graph, own, PROB_EPS), prior)
        evidence = graph.add("Where", graph.column(observed[view]), evidence, zero)
        weight = graph.constant(state["weight"][view])
        parts.append(graph.add("Mul", weight, evidence))
        there = graph.column(graph.cast(observed[view], np.float64))
        counts.append(graph.add("Mul", weight, there))
    count = graph.total(counts)
    is_some = graph.add("Greater", count, zero)
    count = graph.add("Where", is_some, count, graph.constant(1.0, np.float64))
    pooled = graph.add(
        "Div", graph.total(parts), graph.add("Pow", count, graph.constant(state["power"]))
    )
    pooled = graph.add("Mul", pooled, graph.constant(state["slope"]))
    shifted = graph.constant(state["prior"] + state["shift"])
    return graph.add("Sigmoid", graph.add("Add", shifted, pooled))


def _viewwise(graph: Graph, model: ViewwiseClassifier, rows: Sequence[ViewInput]) -> str:
    _check_size(model)
    answers = []
    for view, (own, view_model) in enumerate(zip(rows, model._view_models, strict=True)):
        x = prepare(graph, view, own, model._scaler)
        if isinstance(view_model, _Forests):
            answers.append(graph.cast(_extra_trees(graph, x, view_model), np.float64))
        else:
            answers.append(_boosters(graph, x, view_model, len(model.label_names_)))
    result = _pooled(graph, model._pooling, answers, [own.observed for own in rows])
    return _single_values(graph, result, model.label_frequency_)


def _joint_boosting(graph: Graph, model: JointBoosting, rows: Sequence[ViewInput]) -> str:
    [boosters], observed = model._view_models, rows[0].observed
    for own in rows[1:]:
        observed = graph.add("Or", observed, own.observed)
    answer = _boosters(graph, _side_by_side(graph, model, rows), boosters, len(model.label_names_))
    result = _pooled(graph, model._pooling, [answer], [observed])
    return _single_values(graph, result, model.label_frequency_)


def _side_by_side(graph: Graph, model: Any, rows: Sequence[ViewInput]) -> str:
    blocks = [prepare(graph, view, own, model._scaler) for view, own in enumerate(rows)]
    return graph.add("Concat", *blocks, *_as_numbers(graph, rows, np.float32), axis=1)


def _check_size(model: ViewwiseClassifier) -> None:
    forests = [own for own in model._view_models if isinstance(own, _Forests)]
    leaves = sum(int(own._splits.is_leaf.sum()) for own in forests)
    size = 4 * leaves * len(model.label_names_)
    if size > _MOST_BYTES:
        raise SettingError(
            f"the values of the leaves of {type(model).__name__} would take {size:,} bytes "
            f"({leaves:,} leaves x {len(model.label_names_):,} labels), and an ONNX file may have "
            f"{_MOST_BYTES:,} of them; fit with fewer n_estimators or a larger min_samples_leaf, "
            "or with an ensemble without extra_trees"
        )


def _extra_trees(graph: Graph, x: str, forests: _Forests) -> str:
    """Mean of the copies: all have as many trees, so that it is the mean of all trees."""
    splits, parts = forests._splits, []
    roots = [*splits.roots[:, 0].tolist(), splits.n_nodes]
    for copy in range(forests.n_copies):
        nodes = np.arange(roots[copy], roots[copy + 1])
        leaves = nodes[splits.is_leaf[nodes]]
        parts.append(forests._values(leaves.astype(np.int32), forests._priors[copy]))
    return forest_mean(graph, x, splits, np.vstack(parts))


def _boosters(graph: Graph, x: str, boosters: Any, n_labels: int) -> str:
    trees = boosters._trees
    forests, n_trees = trees.splits.roots.shape
    target = np.repeat(np.arange(forests), n_trees)
    sums = tree_sums(graph, x, trees.splits, trees.value, target)
    shape = graph.constant([-1, forests // n_labels, n_labels], np.int64)
    odds = graph.cast(graph.add("Reshape", sums, shape), np.float64)
    return graph.add(
        "ReduceMean", graph.add("Sigmoid", odds), graph.constant([1], np.int64), keepdims=0
    )


def _single_values(graph: Graph, result: str, frequency: NDArray[np.float64]) -> str:
    single = (frequency == 0) | (frequency == 1)
    if not single.any():
        return result
    return graph.add("Where", graph.constant(single), graph.constant(frequency), result)


def _random_forest(graph: Graph, model: RandomForest, rows: Sequence[ViewInput]) -> str:
    inputs = _side_by_side(graph, model, rows)
    frequency = np.nan_to_num(model.label_frequency_)
    columns = np.zeros((0, len(frequency)))
    learned, splits = model._learned(), model._trees.splits
    zeros = graph.add("Mul", graph.total(_as_numbers(graph, rows, np.float64)),
                      graph.constant(np.zeros((1, len(frequency)))))  # fmt: skip
    base = graph.add("Add", zeros, graph.constant(np.where(
        np.isin(np.arange(len(frequency)), learned), 0.0, frequency)))  # fmt: skip
    if not len(learned):
        return base
    forests, n_trees = splits.roots.shape
    target = np.repeat(np.arange(forests), n_trees)
    sums = tree_sums(graph, inputs, splits, model._trees.value / n_trees, target)
    columns = np.eye(len(frequency))[learned]
    placed = graph.add("MatMul", graph.cast(sums, np.float64), graph.constant(columns))
    return graph.add("Add", base, placed)


def _network(graph: Graph, model: DeepClassifier, rows: Sequence[ViewInput]) -> str:
    from viewgap.export.network_nodes import NotTraceableError, network_nodes

    dtype = next(model.network_.parameters()).detach().cpu().numpy().dtype
    preparation = model._preparation()
    inputs = [prepare(graph, view, own, preparation, dtype) for view, own in enumerate(rows)]
    observed = graph.add("Concat", *[graph.column(own.observed) for own in rows], axis=1)
    try:
        result = network_nodes(graph, model.network_, inputs, observed, model.view_dims_)
    except NotTraceableError as error:
        raise SettingError(
            f"the network of {type(model).__name__} cannot be exported: torch.export cannot trace "
            f"it for any number of rows; what can be: {CAN_BE}"
        ) from error
    return graph.cast(result, np.float64)


def _ensemble(graph: Graph, model: Ensemble, rows: Sequence[ViewInput]) -> str:
    parts = []
    for name, member in model.members_.items():
        odds = _log_odds(graph, add_answers(graph, member, rows), STACKING_EPS)
        parts.append(graph.add("Mul", graph.constant(model.weights_[name], np.float64), odds))
    parts.append(graph.constant(model._stacking.shift, np.float64))
    return graph.add("Sigmoid", graph.total(parts))
