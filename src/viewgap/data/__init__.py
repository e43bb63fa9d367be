"""What comes in: views, labels, input validation, preprocessing, splits and data files.

From the bottom up: `rows` (what a view stores, and which row is which sample), `viewset` and
`labels` (what methods get), `validation` (what users pass becomes these two), `preprocessing`,
`splits`, and `formats` (files).
"""

from __future__ import annotations

from viewgap.data.formats import (
    RawData,
    read_data,
    read_fold_file,
    read_hdf5,
    read_npy_folder,
    read_npz,
    read_six_view,
    read_table_folder,
    read_views,
)
from viewgap.data.labels import Labels, SparseLabels, SparseLabelTable, split_label_lists
from viewgap.data.preprocessing import Standardiser
from viewgap.data.splits import (
    Fold,
    Split,
    amputate,
    label_mask,
    make_fold,
    view_mask,
    warn_shared_rows,
)
from viewgap.data.validation import as_labels, as_viewset, match_views
from viewgap.data.viewset import ViewSet

__all__ = [
    "Fold",
    "Labels",
    "RawData",
    "SparseLabelTable",
    "SparseLabels",
    "Split",
    "Standardiser",
    "ViewSet",
    "amputate",
    "as_labels",
    "as_viewset",
    "label_mask",
    "make_fold",
    "match_views",
    "read_data",
    "read_fold_file",
    "read_hdf5",
    "read_npy_folder",
    "read_npz",
    "read_six_view",
    "read_table_folder",
    "read_views",
    "split_label_lists",
    "view_mask",
    "warn_shared_rows",
]
