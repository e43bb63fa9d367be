"""The back-test of suggested views: its averages against loops, on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from benchmarks import next_view
from viewgap.metrics import average_precision


@pytest.fixture(scope="module")
def case() -> Any:
    data = viewgap.load_dataset("synthetic", n_samples=150, seed=0)
    views, labels = viewgap.amputate(data.views, data.labels, 0.2, 0.2, seed=1)
    labels = np.asarray(labels, dtype=float)
    model = viewgap.LateFusionRidge(random_state=0, on_empty="prior").fit(views[:60], labels[:60])
    suggester = viewgap.ViewSuggester(model).fit(views[60:110], labels[60:110])
    known = views[60:110]
    reference = next_view.precisions(model, known, labels[60:110]), known.observed
    return model, suggester, reference, views[110:], labels[110:]


def test_precisions_are_the_metric_of_single_rows(case: Any) -> None:
    model, _, _, views, labels = case
    found = next_view.precisions(model, views, labels)
    for row in (0, 3, 7):
        for number in (1, 5):
            mask = np.array([[bool(number >> j & 1) for j in range(3)]])
            if not (labels[row] == 1).any() or not (views.observed[row] & mask[0]).any():
                continue
            answer = model.predict_proba(views[[row]].with_observed(mask))
            expected = average_precision(labels[[row]], answer)
            assert found[row, number] == pytest.approx(expected, abs=1e-9)


def test_each_policy_reveals_one_view_and_none_beats_the_oracle(case: Any) -> None:
    model, suggester, reference, views, labels = case
    ap = next_view.precisions(model, views, labels)
    fixed = np.array([0.0, 2.0, 1.0])
    seen = 0
    for rows, lost in next_view.back_test(suggester, fixed, reference, views, ap):
        seen += len(rows)
        assert set(lost) == set(next_view.POLICIES)
        for values in lost.values():
            assert (values >= lost["oracle"] - 1e-12).all() or values is lost["nothing"]
        own = views[rows].observed
        assert own.all()  # of three views, two hidden: one is shown
        whole = ap[rows, 7]
        options = [whole - ap[rows, number] for number in range(1, 7)]
        for policy in ("fixed", "file order", "suggested", "oracle", "by pattern"):
            near = np.isclose(lost[policy][:, None], np.array(options).T).any(axis=1)
            assert near.all()
    complete = views.observed.all(axis=1) & ~np.isnan(ap[:, 0])
    assert seen == 3 * complete.sum()


def test_the_fixed_order_is_of_mean_gains() -> None:
    observed = np.array([[True, True], [True, True], [True, False]])
    ap = np.array([[0.1, 0.3, 0.5, 0.9], [0.1, 0.2, 0.6, 0.8], [0.1, 0.7, 0.1, 0.7]])
    # view 0 joins view 1 in rows 0 and 1, and the other way round
    np.testing.assert_allclose(next_view.mean_gains(ap, observed), [0.3, 0.6])


def test_rows_are_split_without_overlap() -> None:
    for name in ("corel5k", "cll"):
        for rows in ("test", "validation"):
            parts = next_view.split(name, 400, 0, rows)
            together = np.concatenate(parts)
            assert len(set(together.tolist())) == len(together)
    first, second = (set(next_view.split("corel5k", 400, s, "test")[2].tolist()) for s in (0, 1))
    assert first == second  # the test rows of large sets stay the same
    validation = set(next_view.split("corel5k", 400, 1, "validation")[2].tolist())
    assert not validation & first


def test_the_page_has_the_kept_figures() -> None:
    root = Path(__file__).parents[2]
    content = json.loads((root / "benchmarks" / "next_view.json").read_text(encoding="utf-8"))
    page = (root / "docs" / "next_view.md").read_text(encoding="utf-8")
    assert next_view.table(content["results"]) in page
