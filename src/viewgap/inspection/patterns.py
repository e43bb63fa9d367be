"""Which views samples have: one line per pattern, and pairs of views seen together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from viewgap.data.viewset import ViewSet
from viewgap.errors import counted
from viewgap.inspection.findings import Finding, named

if TYPE_CHECKING:
    import pandas as pd

FEW_SAMPLES = 10


def pattern_table(views: ViewSet) -> pd.DataFrame:
    """Samples per pattern of views, most frequent first; `views` are the names, as a tuple."""
    import pandas as pd

    patterns, counts = np.unique(views.observed, axis=0, return_counts=True)
    order = np.lexsort((*(~patterns).T[::-1], -counts))
    names = [tuple(np.compress(flags, views.names).tolist()) for flags in patterns[order]]
    return pd.DataFrame(
        {
            "views": names,
            "n_views": patterns[order].sum(axis=1),
            "samples": counts[order],
            "share": counts[order] / max(1, len(views)),
        }
    )


def pair_table(views: ViewSet) -> pd.DataFrame:
    """Samples that have both views of a pair, and the share of those that have one of them."""
    import pandas as pd

    observed = views.observed.astype(np.float64)
    together = (observed.T @ observed).astype(np.intp)
    lines = []
    for i, view in enumerate(views.names):
        for j in range(i + 1, views.n_views):
            either = together[i, i] + together[j, j] - together[i, j]
            share = together[i, j] / either if either else 0.0
            lines.append((view, views.names[j], together[i, j], share))
    return pd.DataFrame(lines, columns=["view", "other", "samples", "share_of_either"])


def pattern_findings(views: ViewSet, pairs: pd.DataFrame) -> Iterator[Finding]:
    """Views that are never or hardly there, and pairs that no sample has."""
    present = views.observed.sum(axis=0)
    for name, count in zip(views.names, present, strict=True):
        if not count:
            yield Finding(
                "error",
                "view_never_observed",
                f"view {name!r} is missing for every sample",
                "nothing can be learned about it: leave the view out",
                view=name,
            )
        elif count < FEW_SAMPLES:
            yield Finding(
                "warning",
                "view_rarely_observed",
                f"view {name!r} is there for {counted(int(count), 'sample')} only",
                "too few to learn from: leave the view out, or measure it for more samples",
                view=name,
                ids=named(views.sample_ids[views.observed[:, views.names.index(name)]]),
            )
    seen = {name for name, count in zip(views.names, present, strict=True) if count}
    for line in pairs[pairs["samples"] == 0].itertuples():
        if {line.view, line.other} <= seen:
            yield Finding(
                "note",
                "views_never_together",
                f"no sample has both {line.view!r} and {line.other!r}",
                "how they relate cannot be learned; methods that predict one view from another "
                "(SCSD.impute) cannot use this pair. If samples should share both, compare their "
                "ids",
            )
