"""F13: names and ids that occur twice are refused, and listed."""

import numpy as np
import pandas as pd
import pytest

from viewgap.data.validation import as_labels, as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, ViewError

ONE = np.ones((3, 1))


def test_view_names() -> None:
    with pytest.raises(ViewError, match="view names must be unique; 1 occur more than once: 1"):
        as_viewset({1: ONE, "1": ONE})


def test_sample_ids() -> None:
    with pytest.raises(ViewError, match="sample_ids must be unique; 1 occur more than once: x"):
        ViewSet({"a": ONE}, sample_ids=["x", "y", "x"])
    frame = pd.DataFrame(ONE, index=["p", "p", "q"])
    with pytest.raises(ViewError, match=r"view 'a': sample ids must be unique.*: p"):
        as_viewset({"a": frame})
    many = pd.DataFrame(np.ones((20, 1)), index=list(range(10)) * 2)
    with pytest.raises(ViewError, match=r"10 occur more than once: 0, 1, 2, 3, 4, \.\.\."):
        as_viewset({"a": many})


def test_label_names() -> None:
    views = as_viewset([ONE])
    with pytest.raises(LabelError, match=r"label names must be unique.*: cat"):
        as_labels(pd.DataFrame(np.ones((3, 2)), columns=["cat", "cat"]), views)
    with pytest.raises(LabelError, match=r"label names must be unique.*: cat"):
        as_labels(np.ones((3, 2)), views, names=["cat", "cat"])
