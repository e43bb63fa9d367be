"""The service through its ASGI interface: answers, refusals and limits (F70-F76)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from service_calls import JSON, LABELS, call, frames, post, row
from viewgap.serve import ServiceSettings, create_app
from viewgap.serve.worker import Job


@pytest.fixture(scope="module")
def app(folder: Path) -> Any:
    return create_app([folder], ServiceSettings(max_body=20_000, max_rows=50))


def test_probabilities_have_the_bits_of_the_library(app: Any, model: Any) -> None:
    X = frames()
    expected = model.predict_proba(X)
    answer = post(app, {"rows": [row(X, i) for i in range(20)]})
    assert answer.status_code == 200
    for i, found in enumerate(answer.json()["rows"]):
        assert found["id"] == f"s{i}"
        assert found["probabilities"] == expected.iloc[i].to_dict()


def test_models_that_round_by_batch_get_every_request_by_itself(folder: Path) -> None:
    loaded = create_app([folder]).state.service.store.models["cells"].loaded
    views = viewgap.ViewSet({"genes": np.zeros((1, 3))})
    assert Job(loaded, views).joins(Job(loaded, views))
    loaded.fitted.rounds_by_batch = True
    assert not Job(loaded, views).joins(Job(loaded, views))


def test_an_absent_view_a_null_view_and_a_view_of_nulls_are_the_same(app: Any, model: Any) -> None:
    X = frames()
    absent = row(X, 0)
    del absent["views"]["proteins"]
    forms = [absent, row(X, 0, proteins=None), row(X, 0, proteins={"p1": None, "p2": None})]
    found = [post(app, {"rows": [form]}).json() for form in forms]
    assert found[0] == found[1] == found[2]
    hidden = model.predict_proba({"genes": X["genes"].iloc[:1], "proteins": None})
    assert found[0]["rows"][0]["probabilities"] == hidden.iloc[0].to_dict()


def test_without_any_view_the_answer_is_the_label_frequencies(app: Any, model: Any) -> None:
    found = post(app, {"rows": [{"views": {}}]}).json()["rows"][0]
    assert found["no_view"] is True
    assert list(found["probabilities"].values()) == model.label_frequency_.tolist()


def test_after_a_fit_on_one_column_of_classes_a_note_says_whose_the_probability_is(
    tmp_path: Path,
) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    for values, told in ((["b", "a"], 1), ([1, 0], 0)):
        model = viewgap.LateFusionRidge().fit({"a": x}, np.where(x[:, 0] > 0, *values))
        viewgap.save_model(model, tmp_path / str(told))
        own = create_app([tmp_path / str(told)])
        answer = post(own, {"rows": [{"views": {"a": [3.0, 0.0]}}]}).json()
        assert len(answer["notes"]) == told
        assert answer["rows"][0]["probabilities"]["label0"] > 0.5
        assert answer["rows"][0]["decisions"]["label0"] == values[0]
    answer = post(create_app([tmp_path / "1"]), {"rows": [{"views": {"a": [3.0, 0.0]}}]}).json()
    assert "is the class 'b'" in answer["notes"][0]


def test_a_list_needs_its_order_stated(app: Any) -> None:
    X = frames()
    listed = row(X, 1, genes=[X["genes"].iloc[1][name] for name in ("<b>", "TP53", "MYC")])
    refused = post(app, {"rows": [listed]})
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "rows[0].views.genes")
    stated = post(app, {"rows": [listed], "columns": {"genes": ["<b>", "TP53", "MYC"]}})
    assert stated.json() == post(app, {"rows": [row(X, 1)]}).json()


G = {"TP53": 1, "MYC": 2, "<b>": 3}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"rows": [{"views": {"genes": {"TP53": 1, "MYC": 2}}}]}, "rows[0].views.genes.<b>"),
        ({"rows": [{"views": {"genes": G | {"X": 1}}}]}, "rows[0].views.genes.X"),
        ({"rows": [{"views": {"genes": G | {"MYC": "2"}}}]}, "rows[0].views.genes.MYC"),
        ({"rows": [{"views": {"genes": G | {"MYC": True}}}]}, "rows[0].views.genes.MYC"),
        ({"rows": [{"views": {"genes": G | {"MYC": 10**400}}}]}, "rows[0].views.genes.MYC"),
        ({"rows": [{"views": {"genes": [1, 2]}}]}, "rows[0].views.genes"),
        ({"rows": [{"views": {"genes": 1}}]}, "rows[0].views.genes"),
        ({"rows": [{"views": {"lipids": None}}]}, "rows[0].views.lipids"),
        ({"rows": [{"id": 1, "views": {}}, {"id": 1, "views": {}}]}, "rows[1].id"),
        ({"rows": [{"id": 1.5, "views": {}}]}, "rows[0].id"),
        ({"rows": [{"view": {}}]}, "rows[0].view"),
        ({"rows": [[]]}, "rows[0]"),
        ({"rows": []}, "rows"),
        ({}, "rows"),
        ({"rows": [{"views": {}}], "path": "/etc/passwd"}, "path"),
        ({"rows": [{"views": {}}], "model": 1}, "model"),
    ],
)
def test_a_wrong_request_is_400_with_its_place(app: Any, body: Any, field: str) -> None:
    answer = post(app, body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"rows": NaN}',
        b'{"rows": [{"views": {}}], "rows": []}',
        b'{"rows": 1e999}',
        b'{"rows": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"rows": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_not_strict_json_is_400(app: Any, body: bytes) -> None:
    answer = post(app, body)
    assert answer.status_code == 400
    assert "Traceback" not in answer.text


def test_ids_that_utf8_cannot_hold_are_refused(app: Any) -> None:
    answer = post(app, b'{"rows": [{"id": "\\ud800", "views": {}}]}')
    assert answer.status_code == 400
    assert "half of a surrogate pair" in answer.text


def test_a_large_body_is_413_however_its_length_is_told(app: Any) -> None:
    sent = 0

    async def chunks() -> Any:
        nonlocal sent
        for _ in range(100):
            sent += 4096
            yield b" " * 4096

    answer = call(app, "POST", "/predict", content=chunks(), headers=JSON)
    assert answer.status_code == 413
    assert sent <= 20_000 + 2**16
    stated = call(app, "POST", "/predict", content=b" " * 20_001, headers=JSON)
    assert stated.status_code == 413
    lying = call(
        app, "POST", "/predict", content=b"{}", headers=JSON | {"Content-Length": "9" * 99}
    )
    assert lying.status_code == 413


def test_too_many_rows_are_413(app: Any) -> None:
    answer = post(app, {"rows": [{"views": {}}] * 51})
    assert (answer.status_code, answer.json()["error"]["field"]) == (413, "rows")


def test_an_internal_error_says_its_number_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app([folder])
    fitted = app.state.service.store.models["cells"].loaded.fitted

    def fail(views: Any) -> Any:
        raise OSError("/secret/path")

    monkeypatch.setattr(fitted, "_predict_proba", fail)
    answer = post(app, {"rows": [row(frames(), 0)]})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    number = answer.json()["error"]["message"].split()[2].strip(";")
    assert number in caplog.text
    assert "/secret/path" in caplog.text
    assert call(app, "GET", "/health").status_code == 200


def test_a_token_is_asked_for(folder: Path) -> None:
    app = create_app([folder], ServiceSettings(token="right"))
    assert call(app, "GET", "/models").status_code == 401
    assert call(app, "GET", "/health").status_code == 200
    for token, status in (("wrong", 401), ("right", 200), ("righ\xe4", 401)):
        headers = {"Authorization": f"Bearer {token}".encode("latin-1")}
        assert call(app, "GET", "/models", headers=headers).status_code == status


def test_other_addresses_methods_and_kinds_of_body(app: Any) -> None:
    assert call(app, "GET", "/nothing").status_code == 404
    assert call(app, "GET", "/predict").status_code == 405
    assert call(app, "POST", "/predict", content=b"{}").status_code == 415
    assert call(app, "POST", "/predict?model=x", json={"rows": [{"views": {}}]}).status_code == 404


def test_models_ready_metrics_and_openapi_say_no_path(app: Any, folder: Path) -> None:
    post(app, {"rows": [{"views": {}}]})
    for path in ("/models", "/ready", "/metrics", "/openapi.json"):
        answer = call(app, "GET", path)
        assert answer.status_code == 200
        assert str(folder.parent) not in answer.text
    found = call(app, "GET", "/models").json()["models"][0]
    assert [label["name"] for label in found["labels"]] == LABELS
    assert found["views"][0]["columns"] == ["TP53", "MYC", "<b>"]
    assert (
        'viewgap_requests_total{path="/predict",status="200"}' in call(app, "GET", "/metrics").text
    )
