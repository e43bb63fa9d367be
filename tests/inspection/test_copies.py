"""Columns in two views: scaled, mirrored, noisy copies are found; look-alikes are not."""

from __future__ import annotations

import numpy as np
import pytest

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.inspection.copies import copies_across_views, label_copies

N = 120


@pytest.mark.parametrize("seed", range(3))
def test_copies_among_many_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(N, 400)), rng.normal(size=(N, 300))
    planted = {5: (11, 3.0, 0.0), 60: (200, -0.01, 1e-4), 299: (399, 1e6, 1e-3)}
    for own, (other, factor, noise) in planted.items():
        second[:, own] = factor * (first[:, other] + noise * rng.normal(size=N)) + 40
    observed = np.ones((N, 2), dtype=bool)
    observed[:20, 0], observed[100:, 1] = False, False
    found = copies_across_views(ViewSet({"a": first, "b": second}, observed))
    assert {(own.column, own.other_column) for own in found} == {
        (str(own), str(other)) for own, (other, _, _) in planted.items()
    }
    assert all(own.view == "b" and own.rows == 80 for own in found)


def test_one_common_outlier_is_no_copy() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(N, 5)), rng.normal(size=(N, 5))
    first[7, 2] = second[7, 3] = 1e6
    assert copies_across_views(ViewSet({"a": first, "b": second})) == []


def test_rare_indicators_that_agree_are_no_copies() -> None:
    first, second = np.zeros((N, 3)), np.zeros((N, 3))
    first[5, 1] = second[5, 2] = 1.0
    assert copies_across_views(ViewSet({"a": first, "b": second})) == []


def test_too_few_common_samples_are_not_compared() -> None:
    values = np.random.default_rng(4).normal(size=(N, 3))
    observed = np.ones((N, 2), dtype=bool)
    observed[11:, 1] = False
    assert copies_across_views(ViewSet({"a": values, "b": values}, observed)) == []


def test_missing_and_huge_values() -> None:
    values = np.random.default_rng(5).normal(size=(N, 3)) * 1e37
    values[:7, 1] = np.nan
    found = copies_across_views(ViewSet({"a": values, "b": values * 0.5}))
    assert [own.column for own in found] == ["0", "1", "2"]


def test_a_copy_of_a_rare_label_is_found() -> None:
    rng = np.random.default_rng(6)
    n = 3000
    truth = rng.permuted(np.arange(n) < 6)[:, None]
    values = rng.normal(size=(n, 3))
    values[:, 1] = np.where(truth[:, 0], -5.0, 2.0)
    known = np.ones((n, 1), dtype=bool)
    views = ViewSet({"a": values, "b": rng.normal(size=(n, 2))})
    (own,) = label_copies(views, Labels(truth, known, ("x",)))
    assert (own.view, own.column, own.label) == ("a", "1", "x")
