"""The floor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.methods.label_frequency import LabelFrequency
from viewgap.state import State


def test_everybody_gets_the_observed_frequencies(small: Any) -> None:
    model = LabelFrequency().fit(small.views, small.Y)
    found = model.predict_proba(small.views[:7])
    np.testing.assert_allclose(found, np.tile(np.nanmean(small.Y, axis=0), (7, 1)))


def test_weights_are_refused(small: Any) -> None:
    model = LabelFrequency().fit(small.views, small.Y)
    with pytest.raises(ValueError, match="no weights"):
        model._set_state(State({"w": np.zeros(3)}))
