"""Label sets on the page of a model: the promise, how often it held, words for the samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import viewgap
from viewgap.errors import SettingError


@pytest.fixture(scope="module")
def sets(case: Any) -> Any:
    own = viewgap.LabelSets(case.model, risk="coverage", target_level=0.6)
    return own.calibrate(case.views, case.frame(case.test))


def test_the_page_shows_losses_and_words(case: Any, sets: Any) -> None:
    labels = case.frame(case.test)
    found = viewgap.report(case.model, case.views, labels, label_sets=sets)
    expected = sets.evaluate(case.views, labels)
    plain = found.to_dict()["label_sets"]
    assert [own["loss"] for own in plain["patterns"]] == pytest.approx(expected["loss"].tolist())
    assert sum(plain["shares"].values()) == pytest.approx(1.0)
    words = sets.predict(case.views)
    for story in found.stories:
        for line in story.lines:
            assert line["set"] == words.loc[story.sample, line["label"]]
    text = found.to_html()
    assert 'id="sets"' in text
    assert "not contradicted" in text
    assert "<script>alert" not in text
    assert 'id="sets"' not in case.report.to_html()


def test_without_labels_there_are_words_and_no_losses(case: Any, sets: Any) -> None:
    found = viewgap.report(case.model, case.views, label_sets=sets)
    assert found.to_dict()["label_sets"]["patterns"] == []
    assert "has no labels" in found.to_html()


def test_a_broken_promise_is_a_finding(case: Any) -> None:
    labels = case.frame(case.test)
    sets = viewgap.LabelSets(case.model, target_level=0.6).calibrate(case.views, labels)
    kept = viewgap.report(case.model, case.views, labels, label_sets=sets)
    assert "label_sets" not in [finding.kind for finding in kept.findings]
    sets._tables = {  # as if the samples were others
        pattern: replace(table, lower=[1.0] * len(table.lower))
        for pattern, table in sets.tables.items()
    }
    found = viewgap.report(case.model, case.views, labels, label_sets=sets)
    [finding] = [own for own in found.findings if own.kind == "label_sets"]
    assert finding.severity == "warning"
    assert "promised 0.40" in finding.text


def test_sets_of_another_model_or_policy_are_refused(case: Any, sets: Any) -> None:
    other = viewgap.LateFusionRidge().fit(case.views, case.frame(case.test))
    with pytest.raises(SettingError, match="another model"):
        viewgap.report(other, case.views, label_sets=sets)
    sets.nan = "error"
    try:
        with pytest.raises(SettingError, match="nan='error'"):
            viewgap.report(case.model, case.views, label_sets=sets)
    finally:
        sets.nan = case.model.nan
