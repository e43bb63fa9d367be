"""A 1-D y: one label, whose two values are classes as in scikit-learn's binary classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.errors import LabelError


def is_one_label(y: Any) -> bool:
    """Whether y is 1-D with one value per sample (lists of label sets are not)."""
    if isinstance(y, Labels | np.ma.MaskedArray) or getattr(y, "ndim", 1) != 1:
        return False
    try:
        values = np.asarray(y)
    except ValueError:
        return False
    plain = (str, bytes, int, float, np.generic, type(None))
    return values.ndim == 1 and (
        values.dtype.kind != "O" or all(isinstance(value, plain) for value in values)
    )


def find_classes(y: Any) -> NDArray[Any]:
    """Return the two values of y in their order; NaN and None are not observed."""
    values, observed = _observed(y)
    try:
        classes = np.unique(values[observed])
    except TypeError as error:
        raise LabelError("y mixes values of different types: numbers and text, say") from error
    if classes.dtype.kind == "f" and not (classes == np.floor(classes)).all():
        raise LabelError(
            "Unknown label type: continuous. A 1-D y has two classes; labels with a threshold are "
            "made by y > threshold"
        )
    if len(classes) > 2:
        raise LabelError(
            "Only binary classification is supported. The type of the target is multiclass: y has "
            f"{len(classes)} classes; classes that exclude each other become one column each of a "
            "matrix (samples, labels), as by sklearn.preprocessing.LabelBinarizer"
        )
    if len(classes) < 2:
        raise LabelError(f"y has only one class ({classes.tolist()}): there is nothing to learn")
    return classes


def as_column(y: Any, classes: NDArray[Any]) -> Any:
    """Return y as (n, 1) with 0, 1 and NaN, a DataFrame if it is a Series.

    Raises LabelError for a value that is none of the two classes.
    """
    values, observed = _observed(y)
    column = np.full((len(values), 1), np.nan)
    column[observed, 0] = values[observed] == classes[1]
    strange = observed & (values != classes[0]) & (values != classes[1])
    if strange.any():
        row = int(strange.argmax())
        raise LabelError(
            f"y has the value {values[row]!r} in row {row}; the classes of the fit are "
            f"{classes.tolist()}"
        )
    if not hasattr(y, "to_frame"):
        return column
    import pandas as pd

    return pd.DataFrame(column, index=y.index, columns=[_label_name(y.name)])


def _label_name(name: Any) -> str:
    return "label0" if name is None else str(name)


def _observed(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    values = np.asarray(y)
    if values.dtype.kind == "f":
        return values, ~np.isnan(values)
    if values.dtype.kind != "O":
        return values, np.ones(len(values), dtype=np.bool_)
    # A missing value of pandas is the one that does not equal itself.
    return values, np.array([value is not None and value == value for value in values])
