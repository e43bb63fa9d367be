"""`export_onnx`: inputs, outputs and metadata of the file, and how it is written."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from viewgap.export.graph import IR_VERSION, ML_OPSET, OPSET, Graph, require_onnx
from viewgap.fsio import check_file_writable, replaced_file
from viewgap.methods.base import MultiViewClassifier, fitted_model
from viewgap.methods.registry import name_of

_NAN = {
    "mean": "a NaN in an observed row is filled with the training mean of its column",
    "error": "a sample with a NaN in an observed row is answered with NaN",
    "missing_view": "a NaN in a row means that the view is missing for the sample",
}


def export_onnx(model: MultiViewClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as one ONNX file, which predicts without viewgap and torch.

    Preparation of the columns, masks, networks, trees and pooling are inside. For every view there
    are two inputs: values (batch, columns) float32 named like the view, and a mask (batch,) bool
    named `VIEW:observed`; what stands under a mask that is false is not used. The output
    `probabilities` (batch, labels) is float32: the label frequencies for a sample without any view,
    NaN for a label never observed in training, and NaN for a sample that `predict_proba` would
    refuse (infinite values; NaN with `nan="error"`). Names, columns, labels, thresholds and
    versions stand in the metadata of the file, as JSON.

    Parameters
    ----------
    model : MultiViewClassifier
        A fitted network that predicts row by row, LateFusionRidge, ExtraTrees, GradientBoosting,
        RandomForest, or an Ensemble of these; others are refused with a SettingError.
    path : str or path
        The file to write; one that is there is replaced when the new one is complete.

    Examples
    --------
    >>> import tempfile, numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6))}
    >>> model = viewgap.LateFusionRidge(random_state=0).fit(X, (X["a"] > 0).astype(float))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     viewgap.export_onnx(model, f"{folder}/model.onnx")
    """
    fitted_model(model)
    require_onnx()
    check_file_writable(path)
    data = build(model).SerializeToString()
    with replaced_file(path) as file:
        file.write(data)


def build(model: MultiViewClassifier) -> Any:
    """Return the model as a checked `onnx.ModelProto`."""
    import onnx
    from onnx import TensorProto, helper

    from viewgap.export.answers import add_answers
    from viewgap.export.preparation import read_view

    graph, names = Graph(), input_names(model.view_names_)
    inputs, rows = [], []
    for (values, mask), dim in zip(names.values(), model.view_dims_, strict=True):
        inputs.append(helper.make_tensor_value_info(values, TensorProto.FLOAT, ["batch", dim]))
        inputs.append(helper.make_tensor_value_info(mask, TensorProto.BOOL, ["batch"]))
        rows.append(read_view(graph, values, mask, model.nan))
    answers = add_answers(graph, model, rows)
    output = _unused("probabilities", {name for pair in names.values() for name in pair})
    _finish(graph, model, rows, answers, output)
    shape: list[str | int] = ["batch", len(model.label_names_)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
    made = helper.make_graph(graph.nodes, "viewgap", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    proto = helper.make_model(made, opset_imports=opsets, producer_name="viewgap")
    proto.ir_version = IR_VERSION
    helper.set_model_props(proto, _metadata(model, names, output))
    onnx.checker.check_model(proto)
    return proto


def _finish(
    graph: Graph, model: MultiViewClassifier, rows: list[Any], answers: str, output: str
) -> None:
    """Samples without a view, labels never observed, and rows that are refused."""
    from onnx import helper

    frequency = graph.constant(model.label_frequency_, np.float64)
    some, refused = rows[0].observed, rows[0].refused
    for own in rows[1:]:
        some, refused = graph.add("Or", some, own.observed), graph.add("Or", refused, own.refused)
    result = graph.add("Where", graph.column(some), answers, frequency)
    nan = graph.constant(np.nan, np.float64)
    never = graph.constant(np.isnan(model.label_frequency_))
    result = graph.add("Where", graph.add("Or", never, graph.column(refused)), nan, result)
    result = graph.cast(result, np.float32)
    graph.nodes.append(helper.make_node("Identity", [result], [output], name=f"{result}/output"))


def input_names(views: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Names of the values and of the mask of every view, all different."""
    used, names = set(views), {}
    for view in views:
        mask = _unused(f"{view}:observed", used)
        used.add(mask)
        names[view] = (view, mask)
    return names


def _unused(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    return name


def _metadata(
    model: MultiViewClassifier, names: dict[str, tuple[str, str]], output: str
) -> dict[str, str]:
    import viewgap

    views = {
        view: {
            "values": names[view][0],
            "observed": names[view][1],
            "n_columns": int(dim),
            "columns": list(model.feature_names_in_.get(view, ())) or None,
        }
        for view, dim in zip(model.view_names_, model.view_dims_, strict=True)
    }
    limits = 0.5 if model.one_label_ else model.thresholds_  # as `predict` decides
    thresholds = np.broadcast_to(limits, len(model.label_names_))
    frequency = [None if np.isnan(own) else float(own) for own in model.label_frequency_]
    found = {
        "views": views,
        "output": output,
        "labels": list(model.label_names_),
        "classes": model.classes_.tolist() if model.one_label_ else None,
        "thresholds": [float(own) for own in thresholds],
        "label_frequency": frequency,
        "method": name_of(type(model)) or type(model).__name__,
        "nan": {"rule": model.nan, "meaning": _NAN[model.nan]},
        "versions": {"viewgap": viewgap.__version__, "opset": OPSET},
    }
    return {f"viewgap.{key}": json.dumps(value, allow_nan=False) for key, value in found.items()}
