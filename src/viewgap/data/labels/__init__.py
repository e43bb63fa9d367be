"""Labels, dense and sparse, and how they are read from what users have."""

from __future__ import annotations

from viewgap.data.labels.label_lists import split_label_lists
from viewgap.data.labels.label_tables import SparseLabelTable
from viewgap.data.labels.labels import Labels
from viewgap.data.labels.sparse_labels import SparseLabels, is_too_large

__all__ = ["Labels", "SparseLabelTable", "SparseLabels", "is_too_large", "split_label_lists"]
