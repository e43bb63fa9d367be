"""F18: labels outside 0, 1 and NaN are refused, with the place and what to do."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.validation import as_labels, as_viewset
from viewgap.errors import LabelError

VIEWS = as_viewset([np.ones((3, 1))])


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (0.5, "soft labels"),
        (1e-9, "soft labels"),
        (-1, "if -1 stands for absent"),
        (2, "class numbers"),
        (np.inf, "class numbers"),
        (-0.5, "class numbers"),
    ],
)
@pytest.mark.parametrize("kind", ["array", "list", "sparse", "object"])
def test_value(value: float, advice: str, kind: str) -> None:
    matrix: Any = np.array([[0, 1], [1, value], [np.nan, 0]])
    if kind == "list":
        matrix = matrix.tolist()
    elif kind == "sparse":
        matrix = sparse.csr_array(matrix)
    elif kind == "object":
        matrix = matrix.astype(object)
    with pytest.raises(LabelError, match="row 1, column 1") as caught:
        as_labels(matrix, VIEWS)
    assert advice in str(caught.value)
    assert "0, 1 or NaN" in str(caught.value)
