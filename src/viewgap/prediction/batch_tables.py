"""Batches of a wide table (pandas, pyarrow): what predictions read of them, answers in kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import ViewError, first_few
from viewgap.prediction.blocks import Answers
from viewgap.prediction.writers import arrow_table

NAME = "the batch"
"""How messages call it."""


@dataclass(frozen=True)
class Wanted:
    """What answers consist of: names of columns, None for what is not asked for.

    `never_observed`: which labels have no answer, because training never had them.
    """

    id_column: str | None
    probabilities: Sequence[str] | None
    decisions: Sequence[str] | None
    never_observed: NDArray[np.bool_]

    def parts(self, answers: Answers) -> list[tuple[Sequence[str], NDArray[Any]]]:
        """Names and values of the columns of labels, in their order."""
        both = ((self.probabilities, answers.probabilities), (self.decisions, answers.decisions))
        return [(names, values) for names, values in both if names is not None]


class FrameBatch:
    """A pandas DataFrame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = [str(name) for name in frame.columns]
        self.n_rows = len(frame)

    def _column(self, name: str) -> Any:
        return self._frame.iloc[:, self.names.index(name)]

    def ids(self, name: str) -> Any:
        """Values of the id column."""
        return self._column(name).to_numpy(dtype=object)

    def numbers(self, names: Sequence[str]) -> Any:
        """Columns as float64, whatever type they have in this batch because of its nulls."""
        place = {name: position for position, name in enumerate(self.names)}
        found = self._frame.iloc[:, [place[name] for name in names]]
        objects = [i for i, dtype in enumerate(found.dtypes) if dtype == np.dtype(object)]
        if objects:
            found = found.copy(deep=False)
        for position in objects:
            values = _of_objects(found.iloc[:, position])
            if values is not None:
                found.isetitem(position, values)
        return found

    def holds_arrays(self, name: str) -> bool | None:
        """Whether the values of a column are arrays; None where it has no value to tell by."""
        column = self._column(name)
        if column.dtype.kind in "biuf" and self.n_rows:
            return None if column.isna().all() else False
        values = column[column.notna()]
        return isinstance(values.iloc[0], _ARRAYS) if len(values) else None

    def arrays(self, name: str, width: int, ids: Any) -> NDArray[np.float64]:
        """The arrays of a column, (n, width); NaN where they, or values in them, are null."""
        column = self._column(name)
        found = np.full((self.n_rows, width), np.nan)
        for row in np.flatnonzero(column.notna().to_numpy()):
            value = column.iloc[row]
            length = len(value) if isinstance(value, _ARRAYS) else None
            _check_length(name, length, width, ids[row])
            found[row] = _numbers_of(value, name, ids[row])
        return found

    def answered(self, answers: Answers, wanted: Wanted) -> Any:
        """A DataFrame with the same index."""
        import pandas as pd

        index = self._frame.index
        columns: dict[str, Any] = {}
        if wanted.id_column is not None:
            columns[wanted.id_column] = self._column(wanted.id_column)
        columns["no_view"] = pd.Series(answers.no_view, index=index)
        for names, values in wanted.parts(answers):
            for label, name in enumerate(names):
                own = pd.Series(values[:, label], index=index)
                if wanted.never_observed[label] and values.dtype.kind == "i":
                    own = pd.Series(pd.NA, index=index, dtype="Int64")
                columns[name] = own
        return pd.DataFrame(columns, index=index)


def _of_objects(column: Any) -> NDArray[np.float64] | None:
    """Numbers among nulls, which have no type of their own; None where something else is there."""
    values = column.to_numpy()
    absent = column.isna().to_numpy()
    if not all(isinstance(value, Real | Decimal | np.bool_) for value in values[~absent]):
        return None
    found = np.full(len(values), np.nan)
    found[~absent] = [float(value) for value in values[~absent]]
    return found


_ARRAYS = (np.ndarray, list, tuple)


def _numbers_of(array: Any, name: str, sample: Any) -> NDArray[np.float64]:
    """Numbers and nulls of one array."""
    values = np.array([*array, None], dtype=object)[:-1]
    absent = np.array([value is None for value in values], dtype=np.bool_)
    if not all(isinstance(value, Real | Decimal | np.bool_) for value in values[~absent]):
        raise ViewError(
            f"{NAME}: column {name!r}, sample {sample!r}: expected an array of numbers, found "
            f"{first_few(map(repr, array))}"
        )
    values[absent] = np.nan
    return values.astype(np.float64)


def _check_length(name: str, found: int | None, width: int, sample: Any) -> None:
    if found != width:
        shown = "no array" if found is None else f"an array of {found} values"
        raise ViewError(
            f"{NAME}: column {name!r}, sample {sample!r}: expected an array of {width} values, the "
            f"columns of the fit in their order, found {shown}; null stands for a missing view"
        )


class ArrowBatch:
    """A record batch, or a table, of pyarrow."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.names = [str(name) for name in table.schema.names]
        self.n_rows = table.num_rows

    def ids(self, name: str) -> Any:
        """Values of the id column."""
        return np.array([*self._table.column(name).to_pylist(), None], dtype=object)[:-1]

    def numbers(self, names: Sequence[str]) -> Any:
        """Columns as float64, null as NaN."""
        import pandas as pd

        return pd.DataFrame({name: self._numbers(name) for name in names})

    def holds_arrays(self, name: str) -> bool | None:
        """Whether the values of a column are arrays; None where it has no value to tell by."""
        column = self._table.column(name)
        if _is_list(column.type):
            return True
        return None if column.null_count == len(column) else False

    def arrays(self, name: str, width: int, ids: Any) -> NDArray[np.float64]:
        """The arrays of a column, (n, width); NaN where they, or values in them, are null."""
        from pyarrow import compute

        column = self._table.column(name)
        found = np.full((self.n_rows, width), np.nan)
        if not _is_list(column.type):  # no value
            return found
        present = np.asarray(column.is_valid())
        lengths = np.asarray(compute.list_value_length(column).fill_null(width))
        for row in np.flatnonzero(lengths != width):
            _check_length(name, int(lengths[row]), width, ids[row])
        flat = compute.list_flatten(column)
        found[present] = self._as_numbers(name, flat).reshape(-1, width)
        return found

    def _numbers(self, name: str) -> NDArray[np.float64]:
        return self._as_numbers(name, self._table.column(name))

    def _as_numbers(self, name: str, column: Any) -> NDArray[np.float64]:
        import pyarrow as pa
        from pyarrow import types

        kind = column.type
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if not types.is_null(kind) and not any(test(kind) for test in tests):
            raise ViewError(
                f"{NAME}: column {name!r} holds {str(kind)[:60]}; expected numbers: encode it, "
                "or leave the column out"
            )
        if types.is_boolean(kind):
            column = column.cast(pa.int8())
        values = column.cast(pa.float64(), safe=False)
        whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.float64)

    def answered(self, answers: Answers, wanted: Wanted) -> Any:
        """A table of the same kind."""
        import pyarrow as pa

        counted = replace(answers, ids=np.arange(self.n_rows))
        names = [name for own, _ in wanted.parts(answers) for name in own]
        what = (wanted.probabilities is not None, wanted.decisions is not None)
        found = arrow_table(counted, ["", "no_view", *names], *what)
        if wanted.id_column is None:
            found = found.remove_column(0)
        else:
            kept = wanted.id_column
            found = found.set_column(0, self._table.schema.field(kept), self._table.column(kept))
        if isinstance(self._table, pa.Table):
            return found
        arrays = [column.combine_chunks() for column in found.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=found.schema)


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


Batch = FrameBatch | ArrowBatch
