"""`/explain`: the library's contributions, and limits of work."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from service_calls import LABELS, frames, post, row
from viewgap.serve import ServiceSettings, create_app


@pytest.fixture(scope="module")
def app(folder: Path) -> Any:
    return create_app([folder], ServiceSettings(max_predictions=40))


def rows() -> list[dict[str, Any]]:
    X = frames()
    return [row(X, 0), row(X, 1, proteins=None), {"views": {}}]


def explained(app: Any, **more: Any) -> Any:
    answer = post(app, {"rows": rows(), **more}, "/explain")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("scale", ["probability", "log_odds"])
def test_contributions_are_those_of_the_library(app: Any, model: Any, scale: str) -> None:
    X = {name: table.iloc[:2].copy() for name, table in frames().items()}
    X["proteins"] = X["proteins"].iloc[:1]
    expected = viewgap.explain(model, X, scale=scale)
    found = explained(app, scale=scale)
    assert found["scale"] == scale
    for line in expected.itertuples():
        own = found["rows"][int(line.sample[1:])]["labels"][line.label]
        value = own["contributions"][line.view]
        assert value == (line.contribution if line.observed else None)
        assert (own["base"], own["probability"]) == (line.base, line.probability)
        assert own["standard_errors"] is None


def test_contributions_add_up_to_the_answer_of_predict(app: Any) -> None:
    predicted = post(app, {"rows": rows()}).json()["rows"]
    for line, other in zip(explained(app)["rows"], predicted, strict=True):
        assert (line["id"], line["no_view"]) == (other["id"], other["no_view"])
        for label, own in line["labels"].items():
            assert own["probability"] == other["probabilities"][label]
            parts = [value for value in own["contributions"].values() if value is not None]
            assert math.isclose(sum(parts), own["probability"] - own["base"], abs_tol=1e-12)


def test_interactions_add_up_to_contributions(app: Any) -> None:
    plain, split = explained(app), explained(app, interactions=True)
    for line, other in zip(plain["rows"], split["rows"], strict=True):
        for label, own in line["labels"].items():
            pairs = other["labels"][label]["interactions"]
            for view, value in own["contributions"].items():
                if value is None:
                    assert pairs[view] is None
                else:
                    parts = [part for part in pairs[view].values() if part is not None]
                    assert math.isclose(sum(parts), value, abs_tol=1e-12)


def test_only_the_labels_that_are_asked_for(app: Any) -> None:
    every, one = explained(app), explained(app, labels=[LABELS[1]])
    for line, other in zip(every["rows"], one["rows"], strict=True):
        (label, found), expected = *other["labels"].items(), line["labels"][LABELS[1]]
        assert (label, found["probability"]) == (LABELS[1], expected["probability"])
        assert found["contributions"] == pytest.approx(expected["contributions"], abs=1e-12)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"labels": ["absent"]}, "labels[0]"),
        ({"labels": [LABELS[0], 3]}, "labels[1]"),
        ({"labels": [LABELS[0], LABELS[0]]}, "labels[1]"),
        ({"labels": []}, "labels"),
        ({"labels": LABELS[0]}, "labels"),
        ({"scale": "odds"}, "scale"),
        ({"scale": ["probability"]}, "scale"),
        ({"interactions": 1}, "interactions"),
        ({"n_permutations": 4}, "n_permutations"),
    ],
)
def test_a_wrong_request_is_400_with_its_place(app: Any, more: Any, field: str) -> None:
    answer = post(app, {"rows": rows(), **more}, "/explain")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)


def test_too_much_work_is_413_before_it_begins(app: Any) -> None:
    whole = {"rows": [row(frames(), i) for i in range(10)]}  # 4 predictions each
    assert post(app, whole, "/explain").status_code == 200
    more = {"rows": [*whole["rows"], row(frames(), 10)]}
    answer = post(app, more, "/explain")
    assert (answer.status_code, answer.json()["error"]["field"]) == (413, "rows")
    assert "44 predictions" in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def wide_app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model with 12 views: above ten, orders are sampled."""
    draw = np.random.default_rng(1)
    X = {f"v{j}": draw.normal(size=(40, 1)) for j in range(12)}
    y = (sum(X.values()) > 0).astype(float)
    path = tmp_path_factory.mktemp("wide") / "wide"
    viewgap.save_model(viewgap.LateFusionRidge().fit(X, y), path)
    return create_app([path], ServiceSettings(max_predictions=2_000))


def test_above_ten_views_standard_errors_are_told(wide_app: Any) -> None:
    views = {f"v{j}": [0.1 * j] for j in range(12)}
    answer = post(wide_app, {"rows": [{"views": views}]}, "/explain")
    (own,) = answer.json()["rows"][0]["labels"].values()
    assert all(value >= 0 for value in own["standard_errors"].values())
    total = sum(own["contributions"].values())
    assert math.isclose(total, own["probability"] - own["base"], abs_tol=1e-9)
    refused = post(wide_app, {"rows": [{"views": views}], "interactions": True}, "/explain")
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "rows[0].views")
    two = {"rows": [{"views": views}, {"views": views}]}
    assert post(wide_app, two, "/explain").status_code == 413


def test_a_model_that_answers_by_batch_is_refused(app: Any, monkeypatch: Any) -> None:
    from viewgap.explanation import subsets

    monkeypatch.setattr(subsets, "answers_by_batch", lambda model: True)
    answer = post(app, {"rows": rows()}, "/explain")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "model")
