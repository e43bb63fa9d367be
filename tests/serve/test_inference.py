"""The Open Inference Protocol: one tensor per view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from service_calls import LABELS, call, frames, post
from viewgap.serve import ServiceSettings, create_app

INFER = "/v2/models/cells/infer"


@pytest.fixture(scope="module")
def app(folder: Path) -> Any:
    return create_app([folder], ServiceSettings(max_rows=50))


def tensor(view: str, n: int = 4, datatype: str = "FP64", **more: Any) -> dict[str, Any]:
    values = frames()[view].iloc[:n].to_numpy()
    return {
        "name": view,
        "shape": list(values.shape),
        "datatype": datatype,
        "data": values.ravel().tolist(),
        **more,
    }


def probabilities(app: Any, *inputs: Any, **more: Any) -> np.ndarray:
    answer = post(app, {"inputs": list(inputs), **more}, INFER)
    assert answer.status_code == 200, answer.text
    (output,) = answer.json()["outputs"]
    assert (output["name"], output["datatype"]) == ("probabilities", "FP64")
    return np.array(output["data"], dtype=float).reshape(output["shape"])


def test_answers_have_the_bits_of_the_library(app: Any, model: Any) -> None:
    X = {name: table.iloc[:4] for name, table in frames().items()}
    found = probabilities(app, tensor("genes"), tensor("proteins"))
    np.testing.assert_array_equal(found, model.predict_proba(X))
    nested = [tensor(v) for v in ("proteins", "genes")]  # any order, rows as lists
    for own in nested:
        own["data"] = np.reshape(own["data"], own["shape"]).tolist()
    np.testing.assert_array_equal(probabilities(app, *nested), found)


def test_an_omitted_tensor_is_a_missing_view_and_null_is_nan(app: Any, model: Any) -> None:
    X = {name: table.iloc[:4].copy() for name, table in frames().items()}
    one = probabilities(app, tensor("genes"))
    np.testing.assert_array_equal(one, model.predict_proba({"genes": X["genes"], "proteins": None}))
    genes, proteins = tensor("genes"), tensor("proteins")
    genes["data"][1] = None
    X["genes"].iloc[0, 1] = np.nan
    proteins["data"][2:4] = [None, None]  # row 1 lacks the view
    X["proteins"].iloc[1] = np.nan
    found = probabilities(app, genes, proteins)
    np.testing.assert_array_equal(found, model.predict_proba(X))
    nothing = tensor("genes", 1, data=[None] * 3)
    np.testing.assert_array_equal(probabilities(app, nothing)[0], model.label_frequency_)


def test_columns_that_are_named_are_put_in_order(app: Any) -> None:
    names = list(frames()["genes"].columns)
    plain, mixed = tensor("genes"), tensor("genes")
    mixed["data"] = np.reshape(plain["data"], (4, 3))[:, ::-1].ravel().tolist()
    mixed["parameters"] = {"columns": names[::-1]}
    np.testing.assert_array_equal(probabilities(app, mixed), probabilities(app, plain))


def test_fp32_is_rounded_to_float32(app: Any, model: Any) -> None:
    rounded = frames()["genes"].iloc[:4].astype(np.float32).astype(float)
    expected = model.predict_proba({"genes": rounded, "proteins": None})
    found = probabilities(app, tensor("genes", datatype="FP32"))
    np.testing.assert_array_equal(found, expected)


def test_metadata_says_how_to_ask(app: Any) -> None:
    found = call(app, "GET", "/v2/models/cells").json()
    assert found["versions"] == ["1"]
    assert [(own["name"], own["shape"]) for own in found["inputs"]] == [
        ("genes", [-1, 3]),
        ("proteins", [-1, 2]),
    ]
    assert found["inputs"][0]["parameters"]["columns"] == ["TP53", "MYC", "<b>"]
    assert found["outputs"][0]["parameters"]["labels"] == LABELS
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/cells/ready"):
        assert call(app, "GET", path).status_code == 200
    own = post(app, {"id": "x1", "inputs": [tensor("genes")]}, INFER).json()
    assert (own["id"], own["model_name"], own["model_version"]) == ("x1", "cells", "1")


@pytest.mark.parametrize(
    ("body", "start"),
    [
        ({}, "inputs: "),
        ({"inputs": []}, "inputs: "),
        ({"inputs": [3]}, "inputs[0]: "),
        ({"inputs": [tensor("genes", name="lipids")]}, "inputs[0].name: "),
        ({"inputs": [tensor("genes"), tensor("genes")]}, "inputs[1].name: "),
        ({"inputs": [tensor("genes"), tensor("proteins", 3)]}, "inputs[1].shape: "),
        ({"inputs": [tensor("genes", shape=[3, 4])]}, "inputs[0].shape: "),
        ({"inputs": [tensor("genes", shape=[0, 3], data=[])]}, "inputs[0].shape: "),
        ({"inputs": [tensor("genes", shape=[True, 3])]}, "inputs[0].shape: "),
        ({"inputs": [tensor("genes", shape=[5, 3])]}, "inputs[0].data: "),
        ({"inputs": [tensor("genes", datatype="INT64")]}, "inputs[0].datatype: "),
        ({"inputs": [tensor("genes", data="x")]}, "inputs[0].data: "),
        ({"inputs": [tensor("genes", 1, data=[1, 2, "3"])]}, "inputs[0].data[2]: "),
        ({"inputs": [tensor("genes", 1, data=[1, 2, True])]}, "inputs[0].data[2]: "),
        ({"inputs": [tensor("genes", 1, data=[[1, 2]])]}, "inputs[0].data[0]: "),
        ({"inputs": [tensor("genes", 1, data=[1, 2, 10**400])]}, "inputs[0].data[2]: "),
        ({"inputs": [tensor("genes", 1, "FP32", data=[1, 2, 1e39])]}, "inputs[0].data: "),
        ({"inputs": [tensor("genes", parameters={"columns": ["a"]})]}, "inputs[0].parameters."),
        ({"inputs": [tensor("genes", kind=1)]}, "inputs[0].kind: "),
        ({"inputs": [tensor("genes")], "outputs": [{"name": "x"}]}, "outputs[0].name: "),
        ({"inputs": [tensor("genes")], "id": 3}, "id: "),
        ({"inputs": [tensor("genes")], "rows": []}, "rows: "),
    ],
)  # fmt: skip
def test_a_wrong_request_is_400_with_its_place(app: Any, body: Any, start: str) -> None:
    answer = post(app, body, INFER)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(start)


def test_other_refusals_are_texts_too(app: Any) -> None:
    most = {"inputs": [tensor("genes", shape=[51, 3], data=[0.0] * 153)]}
    assert post(app, most, INFER).status_code == 413
    for method, path, status in [
        ("GET", "/v2/models/absent", 404),
        ("GET", "/v2/nothing", 404),
        ("GET", INFER, 405),
        ("POST", INFER, 415),
    ]:
        answer = call(app, method, path)
        assert answer.status_code == status
        assert isinstance(answer.json()["error"], str)


def test_a_model_that_takes_no_missing_value_says_so(tmp_path: Path) -> None:
    X = {"a": np.random.default_rng(0).normal(size=(30, 2))}
    model = viewgap.LateFusionRidge(nan="error").fit(X, (X["a"] > 0).astype(float))
    viewgap.save_model(model, tmp_path / "cells")
    app = create_app([tmp_path / "cells"])
    own = {"name": "a", "shape": [2, 2], "datatype": "FP64", "data": [1.0, None, None, None]}
    assert "nan='error'" in post(app, {"inputs": [own]}, INFER).json()["error"]
    own["data"][1] = 2.0
    assert probabilities(app, own).shape == (2, 2)


def test_health_needs_no_token_and_the_rest_does(folder: Path) -> None:
    app = create_app([folder], ServiceSettings(token="secret"))
    assert call(app, "GET", "/v2/health/live").status_code == 200
    assert call(app, "GET", "/v2/health/ready").status_code == 200
    answer = call(app, "GET", "/v2/models/cells")
    assert answer.status_code == 401
    assert isinstance(answer.json()["error"], str)
