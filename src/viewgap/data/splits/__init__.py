"""Which rows train and which test, and which views and labels a protocol hides from them."""

from __future__ import annotations

from viewgap.data.splits.cross_validation import (
    balanced_parts,
    cross_validation_fold,
    group_numbers,
    matched_groups,
)
from viewgap.data.splits.missing import amputate, label_mask, view_mask, view_mask_over_gaps
from viewgap.data.splits.splits import Fold, Split, cross_fit_parts, make_fold, warn_shared_rows

__all__ = [
    "Fold",
    "Split",
    "amputate",
    "balanced_parts",
    "cross_fit_parts",
    "cross_validation_fold",
    "group_numbers",
    "label_mask",
    "make_fold",
    "matched_groups",
    "view_mask",
    "view_mask_over_gaps",
    "warn_shared_rows",
]
