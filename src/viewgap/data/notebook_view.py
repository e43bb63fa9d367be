"""A ViewSet in a notebook: its views, and a picture of which samples have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from viewgap.notebook import MOST_PATTERNS, card, escape, soft, strip, table

if TYPE_CHECKING:
    from viewgap.data.viewset import ViewSet


def viewset_html(views: ViewSet) -> str:
    """A line per view with its width, samples, missing values and a strip of the patterns."""
    patterns, counts = np.unique(views.observed, axis=0, return_counts=True)
    order = np.lexsort((*(~patterns).T[::-1], -counts))
    shown = order[:MOST_PATTERNS]
    numbers = counts[shown].tolist()
    present, single = views.observed.sum(axis=0), views.n_missing_values
    lines = [
        (name, dim, int(present[j]), single[name], strip(patterns[shown, j].tolist(), numbers))
        for j, (name, dim) in enumerate(zip(views.names, views.dims, strict=True))
    ]
    left = len(order) - len(shown)
    text = f"{len(order):,} patterns of views"
    text += f", the {len(shown)} most frequent shown" if left else ", most frequent first"
    head = f"<b>ViewSet</b> {escape(f'{len(views):,} samples, {views.n_views} views')}"
    columns = ("view", "columns", "samples", "missing values", "samples that have it")
    return card(head, table(columns, lines, raw=(4,)), soft(text))
