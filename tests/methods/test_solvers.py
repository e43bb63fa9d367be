"""What the solvers have in common: they tell when they stop, and whether they have converged."""

from __future__ import annotations

from typing import Any

import pytest

from viewgap.methods.elsmml import ELSMML
from viewgap.methods.imvwl import IMvWL
from viewgap.methods.naim3l import NAIM3L


@pytest.mark.parametrize("kind", [ELSMML, IMvWL, NAIM3L])
def test_convergence_is_told(small: Any, kind: Any) -> None:
    few = kind(random_state=0, max_iter=3).fit(small.views, small.Y)
    assert (few.converged_, few.n_iter_, len(few.objective_)) == (False, 3, 3)
    assert few.residual_ > 1e-4
    many = kind(random_state=0, max_iter=2000, tolerance=1e-3).fit(small.views, small.Y)
    assert many.converged_
    assert many.residual_ < 1e-3
    assert many.n_iter_ == len(many.objective_) < 2000
    assert many.objective_[-1] < few.objective_[-1]
