"""What a data file holds, checked: views, labels and names."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.checks import as_labels
from viewgap.data.file_checks import check_size
from viewgap.data.id_mismatch import compared_ids, likely_cause
from viewgap.data.label_words import Places
from viewgap.data.labels import Labels
from viewgap.data.table_files import load_labels
from viewgap.data.values import is_sparse
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError, InputError, LabelError, ViewgapWarning


@dataclass(frozen=True, eq=False)
class RawData:
    """What a data file holds: views, labels (n, c) with NaN = unknown if there are any, names."""

    views: ViewSet
    labels: NDArray[np.float64] | None
    label_names: tuple[str, ...]


def raw_data(
    path: Path,
    views: Mapping[str, Any],
    labels: Any,
    label_names: Sequence[str],
    *,
    nan: str,
    **options: Any,
) -> RawData:
    """Check what was read from `path`, which errors name."""
    for name in views:
        check_text(path, "the name of a view", name)
    try:
        # What is returned beside the views follows the order of their rows.
        checked = ViewSet(views, nan=nan, **options).with_fixed_row_order()
        if labels is None:
            return RawData(checked, None, ())
        values = as_labels(labels, checked, label_names)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error
    return RawData(checked, values.as_float(), values.names)


def with_label_table(raw: RawData, path: Path) -> RawData:
    """Return data with the labels of a table, matched by sample id."""
    labels = labels_of_table(raw.views, path)
    return RawData(raw.views, labels.as_float(), labels.names)


def labels_of_table(views: ViewSet, path: Path) -> Labels:
    """Return the labels of a table for the samples of `views`, matched by sample id."""
    frame = load_labels(path)
    ids = {str(sample): sample for sample in views.sample_ids.tolist()}
    if not views.has_ids and set(frame.index) != set(ids):
        raise LabelError(
            f"{path}: the data has no sample ids, so its samples count from 0 to "
            f"{len(views) - 1}; the ids of the labels must be just these, found {len(frame)}: "
            f"{compared_ids('the labels', frame.index, 'the data', ids)}"
        )
    if not any(sample in ids for sample in frame.index):
        cause = likely_cause(frame.index, {"the views": ids}, frame.columns)
        raise LabelError(
            f"{path}: the labels have no id in common with the samples: "
            f"{compared_ids('the labels', frame.index, 'the views', ids)}"
            + (f"; likely cause: {cause}" if cause else "")
        )
    frame = without_strangers(path, frame, ids)
    frame.index = [ids[sample] for sample in frame.index]
    try:
        # In the order of the samples, for data without ids; where there are ids, by them.
        return as_labels(frame if views.has_ids else frame.loc[list(ids.values())], views)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error


def without_strangers(path: Path, labels: Any, known: Container[Any]) -> Any:
    """Return the labels of known samples; the others describe nothing, and are named."""
    here = [sample in known for sample in labels.index]
    if all(here):
        return labels
    strangers = [str(sample) for sample, found in zip(labels.index, here, strict=True) if not found]
    shown = ", ".join(strangers[:5]) + (", ..." if len(strangers) > 5 else "")
    warnings.warn(
        f"{path}: {len(strangers)} samples have labels but no view, and are left out ({shown})",
        ViewgapWarning,
        stacklevel=4,
    )
    return labels[here]


def zero_one(path: Path, label: Any, places: Places) -> NDArray[np.float64]:
    """Labels as 0, 1 and NaN; the field's files also write -1 for 0."""
    check_size(path, 8 * int(np.prod(label.shape, dtype=object)))
    dense = np.asarray(label.toarray() if is_sparse(label) else label)
    if dense.dtype.kind not in "buif":
        raise DataFileError(f"{path}: labels must be numbers, found dtype {dense.dtype}")
    values = dense.astype(np.float64)
    found = np.unique(values[~np.isnan(values)])
    if not (np.isin(found, (0, 1)).all() or np.isin(found, (-1, 1)).all()):
        allowed = (-1, 1) if 0 not in found and -1 in found else (0, 1)
        wrong = ~np.isnan(values) & ~np.isin(values, allowed)
        first = np.argwhere(wrong)[0] if values.ndim == 2 else None
        where = "" if first is None else f" in {places.entry(*first.tolist())}"
        raise DataFileError(
            f"{path}: labels must be 0 and 1, or -1 and 1; found {values[wrong][0]}{where}"
        )
    values[values == -1] = 0
    return values


def read_names(path: Path, given: Any, count: int, what: str) -> tuple[str, ...]:
    """Return given names as text, or `<what>0`, `<what>1`, ..."""
    if given is None:
        return tuple(f"{what}{i}" for i in range(count))
    names = text_of(path, f"{what} names", given)
    if len(names) != count:
        raise DataFileError(f"{path}: {len(names)} {what} names for {count} {what}s")
    return names


def text_of(path: Path, what: str, given: Any) -> tuple[str, ...]:
    """Return an array or list of names as text; bytes are UTF-8."""
    items = (
        [given] if isinstance(given, str) else np.ravel(given) if hasattr(given, "ndim") else given
    )
    try:
        names = [item.decode() if isinstance(item, bytes) else str(item) for item in items]
    except ValueError as error:  # code points that do not exist
        raise DataFileError(f"{path}: {what} are no valid text: {error}") from error
    for name in names:
        check_text(path, what, name)
    return tuple(name.strip() for name in names)


def check_text(path: Path, what: str, name: str) -> None:
    """Refuse code points that no text can hold; they could never be printed or saved."""
    try:
        str(name).encode()
    except UnicodeEncodeError as error:
        raise DataFileError(f"{path}: {what}: {name!r} is no valid text") from error


def check_rows(path: Path, views: Mapping[str, Any]) -> None:
    """Refuse views that stay in a file, but whose ids and masks alone would exceed the limit."""
    rows = [view.shape[0] for view in views.values() if view.shape]
    check_size(path, max(rows, default=0) * max(8, len(views)))
