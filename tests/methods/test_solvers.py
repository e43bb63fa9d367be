"""What NAIM3L and iMvWL have in common: when they stop, and sparse views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.viewset import ViewSet
from viewgap.methods.imvwl import IMvWL
from viewgap.methods.naim3l import NAIM3L

pytestmark = pytest.mark.parametrize("kind", [IMvWL, NAIM3L])


def test_convergence_is_told(small: Any, kind: Any) -> None:
    few = kind(random_state=0, max_iter=3).fit(small.views, small.Y)
    assert (few.converged_, few.n_iter_, len(few.objective_)) == (False, 3, 3)
    assert few.residual_ > 1e-4
    many = kind(random_state=0, max_iter=2000, tolerance=1e-3).fit(small.views, small.Y)
    assert many.converged_
    assert many.residual_ < 1e-3
    assert many.n_iter_ == len(many.objective_) < 2000
    assert many.objective_[-1] < few.objective_[-1]


def test_sparse_views_give_the_same_answer(small: Any, kind: Any) -> None:
    dense = {name: np.maximum(block, 0) for name, block in small.blocks.items()}
    thin = {name: sparse.csr_array(block) for name, block in dense.items()}
    first, second = (ViewSet(blocks, observed=small.observed) for blocks in (dense, thin))
    answers = [
        kind(random_state=0, max_iter=5).fit(X, small.Y).predict_proba(X) for X in (first, second)
    ]
    np.testing.assert_array_equal(*answers)
