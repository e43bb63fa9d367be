"""What is learned from the values of training rows, and prepared rows for methods to read."""

from __future__ import annotations

from viewgap.data.preprocessing.column_ranges import ColumnRange, ColumnRanges
from viewgap.data.preprocessing.prepared_rows import PreparedRows
from viewgap.data.preprocessing.standardiser import Preparation, Standardiser, Unscaled

__all__ = [
    "ColumnRange",
    "ColumnRanges",
    "Preparation",
    "PreparedRows",
    "Standardiser",
    "Unscaled",
]
