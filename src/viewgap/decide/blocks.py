"""Label sets in blocks of rows, as the answers that the writers of `viewgap.prediction` take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from viewgap.data.viewset import ViewSet
from viewgap.decide.label_sets import LabelSets
from viewgap.methods.estimator.numeric_checks import warn_of_far_values
from viewgap.prediction.blocks import Answers, rows_of_a_block, without_unknown_views


def decide_blocks(sets: LabelSets, views: ViewSet) -> Iterator[Answers]:
    """Return the words for the labels, block by block, in the order of the samples.

    All checks and warnings come with the call, before the first block: a pattern of missing views
    without thresholds is refused there.
    """
    model = sets.model
    matched = model._match(without_unknown_views(model, views), sets.nan)
    sets.check_patterns(matched)
    warn_of_far_values(matched, model.column_ranges_)
    return _blocks(sets, matched, rows_of_a_block(model))


def _blocks(sets: LabelSets, views: ViewSet, n_rows: int) -> Iterator[Answers]:
    for start in range(0, len(views), n_rows):
        part = views[start : start + n_rows]
        words = sets.words(part)
        yield Answers(part.sample_ids, ~part.has_view, np.zeros(words.shape), words)
