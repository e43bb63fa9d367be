"""The page at `/` without a browser: what it may load, and the rows to begin with."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import viewgap
from viewgap.serve import ServiceSettings, create_app
from viewgap.serve.models import ModelStore
from viewgap.serve.page import example_rows


def get(app: Any, path: str, **request: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(request.pop("method", "GET"), path, **request)

    return asyncio.run(send())


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_only_its_own_style_and_script_are_allowed(nasty: Path) -> None:
    app = create_app([nasty / "nasty"], ServiceSettings(token="secret"))
    found = get(app, "/")  # without the token, which the page asks for
    assert found.status_code == 200
    policy = dict(
        part.split(" ", 1) for part in found.headers["content-security-policy"].split("; ")
    )
    [script] = re.findall(r"<script>(.*?)</script>", found.text, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", found.text, re.DOTALL)
    assert policy == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "script-src": f"'{digest(script)}'",
        "style-src": f"'{digest(style)}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "nasty" not in found.text  # nothing of the model before the token is known


def test_the_script_has_no_way_to_make_markup_or_code_of_text(nasty: Path) -> None:
    text = get(create_app([nasty / "nasty"]), "/").text
    for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("):
        assert way not in text
    assert not re.search(r"\son\w+=|\sstyle=|https?://", text)


def test_example_rows_are_answered_without_a_note(nasty: Path) -> None:
    app = create_app([nasty / "nasty"])
    body = get(app, "/example").json()
    answer = get(app, "/predict", method="POST", json=body)
    assert answer.status_code == 200
    assert answer.json()["notes"] == []
    assert [row["no_view"] for row in answer.json()["rows"]] == [False, False]
    assert list(body["rows"][1]["views"].values())[-1] is None
    assert get(app, "/example?model=other").status_code == 404


@pytest.mark.parametrize("method", [viewgap.LateFusionRidge, viewgap.LabelFrequency])
def test_example_values_lie_within_those_of_training(method: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(30, 3)), "huge": rng.choice([-1e30, 0.0, 1e30], (30, 2))}
    X["huge"][:, 1] = 5.0
    viewgap.save_model(method().fit(X, (X["a"] > 0).astype(float)), tmp_path / "m")
    loaded = ModelStore([tmp_path / "m"]).models["m"].loaded
    for row in example_rows(loaded)["rows"]:
        for view, values in row["views"].items():
            if values is not None and loaded.fitted.column_ranges_ is not None:
                low, high = X[view].min(axis=0), X[view].max(axis=0)
                room = 1e-3 * np.maximum(np.abs(low), np.abs(high))  # four digits are told
                assert ((values >= low - room) & (values <= high + room)).all()
