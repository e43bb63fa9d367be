"""The OpenAPI description: its examples are answered, and so is what schemathesis draws from it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import viewgap
from service_calls import call
from viewgap.decide.label_sets import LabelSets
from viewgap.serve import ServiceSettings, create_app

schemathesis = pytest.importorskip("schemathesis")
jsonschema = pytest.importorskip("jsonschema_rs")
EXAMPLES = int(os.environ.get("SERVE_EXAMPLES", "20"))  # `make serve-fuzz` asks for more
BODIES = ["/predict", "/explain", "/decide", "/v2/models/{name}/infer"]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service whose model has the views, columns and labels of the examples."""
    draw, path = np.random.default_rng(0), tmp_path_factory.mktemp("described")
    X = {
        "genes": pd.DataFrame(draw.normal(size=(120, 2)), columns=["TP53", "MYC"]),
        "proteins": pd.DataFrame(draw.normal(size=(120, 1)), columns=["p1"]),
    }
    high = pd.DataFrame({"relapse": X["genes"]["TP53"] > 0, "remission": X["genes"]["MYC"] < 0})
    y = high.astype(float)
    model = viewgap.LateFusionRidge().fit({name: x[:60] for name, x in X.items()}, y[:60])
    viewgap.save_model(model, path / "cells")
    sets = LabelSets(model).calibrate({name: x[60:] for name, x in X.items()}, y[60:])
    sets.save(path / "sets.json")
    limits = ServiceSettings(max_body=50_000, max_rows=50, max_predictions=500)
    return create_app([path / "cells"], limits, {"cells": path / "sets.json"})


def operations(app: Any) -> Any:
    for path, methods in app.openapi()["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_examples_fit_their_schemas(app: Any) -> None:
    n = 0
    for _, _, operation in operations(app):
        assert operation["summary"]
        for body in [operation.get("requestBody", {}), *operation["responses"].values()]:
            own = body.get("content", {}).get("application/json")
            if own is not None:
                jsonschema.validate(own["schema"], own["example"])
                n += 1
    assert n > 30
    assert call(app, "GET", "/openapi.json").json() == app.openapi()


def test_examples_are_answered_as_described(app: Any) -> None:
    n = 0
    for path, method, operation in operations(app):
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        sent = {} if body is None else {"json": body["example"]}
        answer = call(app, method.upper(), path.replace("{name}", "cells"), **sent)
        assert answer.status_code == 200, answer.text
        described = operation["responses"]["200"]["content"]
        assert answer.headers["content-type"].partition(";")[0] in described
        if "application/json" in described:
            jsonschema.validate(described["application/json"]["schema"], answer.json())
            n += 1
    assert n > 10


def test_schemas_refuse_what_the_service_refuses(app: Any) -> None:
    content = app.openapi()["paths"]["/predict"]["post"]["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    for body in ({}, {"rows": []}, {"rows": [{}]}, {"rows": [{"views": {"genes": "x"}}]}):
        assert not jsonschema.is_valid(schema, body)
        assert call(app, "POST", "/predict", json=body).status_code == 400


@pytest.mark.parametrize("path", BODIES)
def test_drawn_requests_are_answered_as_described(app: Any, path: str) -> None:
    """Right and wrong requests: no error of the server; status, kind and body as described."""
    from schemathesis import GenerationMode
    from schemathesis.checks import (
        content_type_conformance,
        not_a_server_error,
        response_schema_conformance,
        status_code_conformance,
    )

    operation = schemathesis.openapi.from_asgi("/openapi.json", app)[path]["POST"]
    cases = st.one_of(
        operation.as_strategy(GenerationMode.POSITIVE),
        operation.as_strategy(GenerationMode.NEGATIVE),
    )
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def check(case: Any) -> None:
        case.call_and_validate(checks=checks)

    check()
