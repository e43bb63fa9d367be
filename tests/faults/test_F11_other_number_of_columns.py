"""F11: a view with another number of columns than in the fit is refused by name and numbers."""

import numpy as np
import pytest

from viewgap.data.validation import as_viewset, match_views
from viewgap.errors import ViewError


@pytest.mark.parametrize("name", ["hue", "gist", "sift"])
@pytest.mark.parametrize("difference", [-1, 1])
def test_each_view_one_column_off(name: str, difference: int) -> None:
    dims = {"hue": 10, "gist": 512, "sift": 3}
    other = dims | {name: dims[name] + difference}
    views = as_viewset({key: np.ones((2, dim)) for key, dim in other.items()})
    message = f"view '{name}': {other[name]} columns, the model was fitted on {dims[name]}"
    with pytest.raises(ViewError) as caught:
        match_views(views, list(dims), list(dims.values()))
    assert str(caught.value) == message
