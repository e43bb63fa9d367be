"""Every method can be explained: contributions of views add up, and missing views have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewgap


@pytest.fixture(scope="session")
def explained(fitted: Any, other: Any) -> Any:
    return viewgap.explain(fitted, other.views(slice(8)))


def test_contributions_add_up_to_the_answer(explained: Any, fitted: Any, other: Any) -> None:
    views = other.views(slice(8))
    total = explained.groupby(["sample", "label"], sort=False)["contribution"].sum()
    answers = fitted.predict_proba(views)
    expected = answers - fitted.label_frequency_
    np.testing.assert_allclose(total.to_numpy().reshape(8, -1), expected, atol=1e-6)
    shown = explained.groupby(["sample", "label"], sort=False)["probability"].first()
    base = explained.groupby(["sample", "label"], sort=False)["base"].first()
    np.testing.assert_allclose(total, shown - base, atol=1e-12)  # of its own answers: exactly


def test_a_view_that_a_sample_lacks_contributes_nothing(explained: Any, other: Any) -> None:
    observed = explained["observed"].to_numpy().reshape(8, -1, 3)
    np.testing.assert_array_equal(observed, np.repeat(other.observed[:8, None], 4, axis=1))
    assert (explained.loc[~explained["observed"], "contribution"] == 0).all()
