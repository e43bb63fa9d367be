"""ViewSets and fitted estimators in notebooks; scikit-learn shows those that are not fitted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import viewgap
from viewgap.metrics.evaluation import Evaluation
from viewgap.notebook import escape, number_text, strip, table

NASTY = "<script>alert('x')</script>"


def data() -> tuple[viewgap.ViewSet, np.ndarray]:
    rng = np.random.default_rng(0)
    observed = np.ones((40, 2), dtype=bool)
    observed[:10, 1] = False
    views = {NASTY: rng.normal(size=(40, 3)), "b": rng.normal(size=(40, 2))}
    views["b"][20, 0] = np.nan
    return viewgap.ViewSet(views, observed), (rng.random((40, 3)) < 0.5).astype(float)


def test_a_viewset_shows_its_patterns() -> None:
    views, _ = data()
    page = views._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 2
    assert '<rect x="0.00" width="180.00"' in page  # three quarters have both views
    assert ">40<" in page
    assert ">30<" in page
    assert "2 patterns" in page
    assert views[:0]._repr_html_()


def test_many_patterns_are_cut() -> None:
    rng = np.random.default_rng(1)
    observed = rng.random((500, 8)) < 0.5
    views = viewgap.ViewSet({f"v{j}": np.ones((500, 1)) for j in range(8)}, observed)
    assert "the 40 most frequent shown" in views._repr_html_()


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (viewgap.LabelFrequency(), "all parameters at their defaults"),
        (viewgap.LateFusionRidge(penalties=(1.0, 10.0)), "(1.0, 10.0)"),
        (viewgap.DDINet(max_epochs=2, nan="mean", random_state=3), "validation score"),
    ],
    ids=["defaults", "parameters", "scores"],
)
def test_a_fitted_estimator(model: Any, shown: str) -> None:
    views, labels = data()
    before = model._repr_html_()
    assert "sk-estimator" in before or "sk-top-container" in before
    model.fit(views, labels)
    page = model._repr_html_()
    assert f"<b>{type(model).__name__}</b>" in page
    assert "fitted on 40 samples, 2 views, 3 labels" in page
    assert shown in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "label0" in page
    assert model._repr_mimebundle_()["text/html"] == page
    assert model._repr_mimebundle_()["text/plain"] == repr(model)


def test_scikit_learns_switch_and_pipelines_work() -> None:
    views, labels = data()
    model = viewgap.LabelFrequency().fit(views, labels)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert "LabelFrequency" in pipeline._repr_html_()


def test_metrics_of_a_prediction() -> None:
    page = viewgap.evaluate([[1, 0], [0, 1]], [[0.9, 0.2], [0.3, 0.8]])._repr_html_()
    assert page.count('<td class="vg-number">1</td>') == 6
    assert "2 samples, 0 without positives, 0 without labels" in page
    assert Evaluation({"AP": 0.5})._repr_html_()


@pytest.mark.filterwarnings("ignore:the best trial")
def test_results() -> None:
    """Tables of a comparison and of tuning, without script, names escaped."""
    views, labels = data()
    fast = ["label_frequency", "late_fusion_ridge"]
    found = viewgap.compare(views, labels, methods=fast, folds=2)
    page = found._repr_html_()
    assert "40 samples, 2 folds" in page
    assert page.count("<tr>") == 3
    assert found.table().notes[0] in page.replace("&#x27;", "'")
    evil = dataclasses.replace(found, dataset=NASTY)._repr_html_()
    assert "<script" not in evil
    assert "&lt;script&gt;" in evil
    pytest.importorskip("optuna")
    tuned = viewgap.tune(views, labels, method="late_fusion_ridge", trials=2)
    page = tuned._repr_html_()
    assert "0 (default)" in page
    assert tuned.summary in page
    assert "<script" not in dataclasses.replace(tuned, method=NASTY)._repr_html_()


def test_long_names_wrap_and_numbers_do_not() -> None:
    page = table(["name", "number"], [["a long name of a view, in words", 12]])
    assert '<td class="vg-text">a long name' in page
    assert '<td class="vg-number">12' in page


def test_parts() -> None:
    assert escape('<a href="x">\x1b') == "&lt;a href=&quot;x&quot;&gt;\\x1b"
    texts = [number_text(value) for value in (None, float("nan"), True, 1234, 0.12345, "a")]
    assert texts == ["–", "–", "yes", "1,234", "0.1235", "a"]
    assert strip([], []).startswith("<svg")
