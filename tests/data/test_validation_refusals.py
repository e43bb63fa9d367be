"""What views and labels are refused for, where no other test goes."""

import numpy as np
import pandas as pd
import pytest

from viewgap.data.validation import as_labels, as_viewset, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, ViewError
from viewgap.metrics import fit_thresholds

A = np.arange(6.0).reshape(3, 2)


def test_a_column_of_ids_needs_tables() -> None:
    with pytest.raises(ViewError, match="id_column='id' needs DataFrames, found ndarray"):
        as_viewset(A, id_column="id")
    frame = pd.DataFrame({"id": ["p", "q", "r"], "x": [1.0, 2, 3]})
    assert as_viewset([frame, frame], id_column="id").names == ("view0", "view1")


def test_labels_of_other_names_are_refused() -> None:
    views = ViewSet({"a": A})
    labels = as_labels(pd.DataFrame(np.eye(3), columns=["x", "y", "z"]), views)
    with pytest.raises(LabelError, match="expected the labels"):
        as_labels(labels, views, names=["x", "y", "w"])


def test_arrays_of_another_width_than_the_fitted_one_are_refused() -> None:
    with pytest.raises(ViewError, match="view 'a': 2 columns, the model was fitted on 3"):
        match_views(ViewSet({"a": A}), ["a"], [3])


def test_a_fallback_that_is_no_number_is_refused() -> None:
    with pytest.raises(SettingError, match="fallback must be a finite number"):
        fit_thresholds(np.eye(3), np.eye(3), fallback=np.nan)
