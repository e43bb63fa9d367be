"""The table that `explain` gives: a DataFrame that notebooks draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pandas as pd

COLUMNS = ("sample", "label", "view", "observed", "contribution", "base", "probability")


class Explanation(pd.DataFrame):
    """Contributions of views, a line each; what is cut from it is a plain DataFrame.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=90, seed=0)
    >>> model = viewgap.LateFusionRidge().fit(data.views[:80], data.labels[:80])
    >>> table = viewgap.explain(model, data.views[80:82], labels="label0")
    >>> type(table).__name__, type(table[table["observed"]]).__name__
    ('Explanation', 'DataFrame')
    """

    @classmethod
    def of(cls, columns: Mapping[str, Any], scale: str) -> Self:
        """A table of these columns; `scale` is what contributions are differences of."""
        table = cls(columns)
        table.attrs["scale"] = scale
        return table

    def _repr_html_(self) -> str | None:
        plain = pd.DataFrame(self)
        if not len(self) or not set(COLUMNS) <= set(self.columns):  # changed in place
            return plain._repr_html_()  # type: ignore[operator, no-any-return]
        from viewgap.explanation.drawing import render_notebook

        return render_notebook(plain)
