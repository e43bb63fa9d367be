"""Every method: labels completed, the page about a model, and the service."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.errors import ViewgapWarning


@pytest.mark.base_class
def test_labels_are_completed_out_of_fold(make: Any, problem: Any) -> None:
    rows = slice(0, 40)
    views, Y = problem.views(rows), problem.Y[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)  # rare labels of few rows
        found = viewgap.complete_labels(views, Y, method=make(), cv=2)
    completed = np.asarray(found.completed, dtype=float)
    np.testing.assert_array_equal(completed[~np.isnan(Y)], Y[~np.isnan(Y)])
    filled = completed[np.isnan(Y)]
    assert ((filled >= 0) & (filled <= 1)).all()


@pytest.mark.base_class
def test_a_page_is_made(fitted: Any, other: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)
        found = viewgap.report(fitted, other.views(), other.Y)
    plain = found.to_dict()
    json.dumps(plain, allow_nan=False)
    assert plain["findings"]
    assert type(fitted).__name__ in found.to_html()


def test_the_service_has_the_answers_of_the_library(
    fitted: Any, other: Any, tmp_path: Path
) -> None:
    pytest.importorskip("fastapi")
    from service_calls import post
    from viewgap.serve import create_app

    viewgap.save_model(fitted, tmp_path / "model")
    app = create_app([tmp_path / "model"])
    blocks = other.with_nan()
    rows = [
        {
            "views": {
                name: None if np.isnan(block[i]).all() else block[i].tolist()
                for name, block in blocks.items()
            }
        }
        for i in range(4)
    ]
    answer = post(app, {"rows": rows}).json()
    expected = fitted.predict_proba(other.views(slice(4)))
    found = [list(line["probabilities"].values()) for line in answer["rows"]]
    np.testing.assert_array_equal(found, expected)
    explained = post(app, {"rows": rows}, "/explain").json()["rows"]
    for line, probabilities in zip(explained, found, strict=True):
        for part, probability in zip(line["labels"].values(), probabilities, strict=True):
            total = sum(value for value in part["contributions"].values() if value is not None)
            assert part["base"] + total == pytest.approx(part["probability"], abs=1e-12)
            assert part["probability"] == pytest.approx(probability, abs=1e-6)
