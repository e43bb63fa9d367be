"""Rows of a request as a ViewSet: views and columns by name, whatever is absent is missing.

A view that is absent or null is missing; a null in a
view is a missing value, treated as the model's `nan` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import viewgap.strict_json as strict_json
from viewgap.data.viewset import ViewSet
from viewgap.errors import InputError, first_few
from viewgap.serve.models import LoadedModel
from viewgap.serve.settings import RequestError, ServiceSettings

_NUMBERS = {int, float, type(None)}
_ROW_KEYS = {"id", "views"}
LONGEST_ID = 500


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows of one request: ids as they were sent (None without), and values."""

    ids: list[Any]
    views: ViewSet

    def __len__(self) -> int:
        return len(self.ids)


def parse_json(body: bytes) -> dict[str, Any]:
    """The object that a body holds; `RequestError` for everything that is not strict JSON."""
    try:
        value = strict_json.loads(body)
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is not UTF-8 (byte {error.start})") from None
    except ValueError as error:
        raise RequestError(f"the body is not strict JSON: {str(error)[:200]}") from None
    return as_object(value, "")


def as_object(value: Any, field: str) -> dict[str, Any]:
    """`value`, if it is an object."""
    if not isinstance(value, dict):
        raise RequestError(f"expected an object, found {kind_of(value)}", field)
    return value


def refuse_unknown(value: Mapping[str, Any], known: set[str], field: str) -> None:
    """Refuse keys that mean nothing: a misspelt one would be a view that is silently missing."""
    for key in value:
        if key not in known:
            words = f"unknown key {key[:60]!r}; known: {first_few(sorted(known), 20)}"
            raise RequestError(words, joined(field, key))


def kind_of(value: Any) -> str:
    """A JSON value in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def joined(field: str, key: str) -> str:
    """The path of a key below `field`."""
    return f"{field}.{key[:100]}" if field else key[:100]


def read_rows(value: Mapping[str, Any], loaded: LoadedModel, settings: ServiceSettings) -> Rows:
    """Rows of a JSON body: `rows`, and `columns` for views given as lists."""
    rows = value.get("rows")
    if not isinstance(rows, list) or not rows:
        words = "no rows" if rows == [] else kind_of(rows)
        raise RequestError(f"expected a list of rows, found {words}", "rows")
    check_n_rows(len(rows), loaded, settings, "rows")
    orders = read_orders(value.get("columns"), loaded)
    ids = [_id_of(row, f"rows[{i}]") for i, row in enumerate(rows)]
    refuse_repeated(ids)
    values: dict[str, NDArray[np.float64]] = {}
    for i, row in enumerate(rows):
        place = f"rows[{i}].views"
        views = as_object(row.get("views"), place)
        refuse_unknown(views, set(loaded.columns), place)
        for view, given in views.items():
            if given is not None:
                numbers = _numbers(given, view, loaded, orders, joined(place, view))
                if view not in values:
                    values[view] = np.full((len(rows), len(numbers)), np.nan)
                values[view][i] = numbers
    return Rows(ids, as_views(values, len(rows), loaded))


def check_n_rows(n_rows: int, loaded: LoadedModel, settings: ServiceSettings, field: str) -> None:
    """Refuse more rows than a request may have."""
    most = settings.rows_of(loaded.n_values)
    if n_rows > most:
        raise RequestError(
            f"{n_rows:,} rows, at most {most:,} in one request; send several", field, 413
        )


def as_views(
    values: Mapping[str, NDArray[np.float64]], n_rows: int, loaded: LoadedModel
) -> ViewSet:
    """The views of the model: values (n, d) with NaN for what is missing; absent ones missing."""
    given: dict[str, Any] = {}
    for view, names in loaded.columns.items():
        # One zero, repeated by a stride of zero bytes: a missing view takes no memory.
        absent = np.broadcast_to(np.float32(0), (n_rows, len(names)))
        given[view] = values.get(view, absent)
    observed = np.tile([view in values for view in given], (n_rows, 1))
    ids = [f"rows[{i}]" for i in range(n_rows)]  # what a message calls a sample
    try:
        views = ViewSet(given, observed=observed, sample_ids=ids, nan=loaded.fitted.nan)
    except InputError as error:
        raise RequestError(str(error)) from None
    known = {view: loaded.columns[view] if loaded.is_named(view) else None for view in given}
    return views._replace(columns=known)


# ---------------------------------------------------------------------- ids


def _id_of(row: Any, field: str) -> Any:
    refuse_unknown(as_object(row, field), _ROW_KEYS, field)
    found = row.get("id")
    if found is not None and type(found) not in (int, str):
        raise RequestError(
            f"expected text or a whole number, found {kind_of(found)}", f"{field}.id"
        )
    if len(str(found)) > LONGEST_ID:
        raise RequestError(f"an id of more than {LONGEST_ID} letters", f"{field}.id")
    return found


def refuse_repeated(ids: Sequence[Any]) -> None:
    """Refuse an id that two rows have."""
    seen: dict[Any, int] = {}
    for i, own in enumerate(ids):
        if own is not None and seen.setdefault(own, i) != i:
            raise RequestError(
                f"the id {str(own)[:60]!r} is that of rows[{seen[own]}], too; ids must differ",
                f"rows[{i}].id",
            )


# ---------------------------------------------------------------------- columns


def read_orders(stated: Any, loaded: LoadedModel) -> dict[str, Sequence[int]]:
    """Where each column of the model stands in the lists of a view, by `columns` of a request."""
    if stated is None:
        return {}
    refuse_unknown(as_object(stated, "columns"), set(loaded.columns), "columns")
    return {
        view: column_positions(names, loaded.columns[view], joined("columns", view))
        for view, names in stated.items()
    }


def column_positions(names: Any, wanted: Sequence[str], field: str) -> list[int]:
    """Where the wanted columns stand among `names`, which must be just these."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError("expected a list of column names", field)
    positions = {name: position for position, name in enumerate(names)}
    if len(positions) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"the column {repeated[:60]!r} is named twice", field)
    check_columns(positions, wanted, field)
    return [positions[name] for name in wanted]


def check_columns(given: Mapping[str, Any], wanted: Sequence[str], field: str) -> None:
    """Refuse columns that are absent or unknown, by name."""
    absent = [name for name in wanted if name not in given]
    if absent:
        raise RequestError(
            f"{len(absent)} of {len(wanted)} columns are absent: {first_few(absent)}; send null "
            "for a value that was not measured",
            joined(field, absent[0]),
        )
    if len(given) > len(wanted):
        known = set(wanted)
        extra = [name[:60] for name in given if name not in known]
        words = f"columns that the model was not fitted on: {first_few(extra)}"
        raise RequestError(words, joined(field, extra[0]))


def _numbers(
    given: Any, view: str, loaded: LoadedModel, orders: Mapping[str, Sequence[int]], field: str
) -> list[Any]:
    """The values of a view in one row, in the order of the model."""
    wanted = loaded.columns[view]
    if isinstance(given, dict):
        check_columns(given, wanted, field)
        values = [given[name] for name in wanted]
    elif isinstance(given, list):
        values = _listed(given, view, loaded, orders, field)
    else:
        raise RequestError(
            f"expected an object of columns, a list or null, found {kind_of(given)}", field
        )
    if not set(map(type, values)) <= _NUMBERS:
        at = next(i for i, value in enumerate(values) if type(value) not in _NUMBERS)
        words = f"expected a number or null, found {kind_of(values[at])}"
        raise RequestError(words, joined(field, wanted[at]))
    check_numbers(values, wanted, loaded, field)
    return values


def check_numbers(
    values: Sequence[Any], wanted: Sequence[str], loaded: LoadedModel, field: str
) -> None:
    """Refuse numbers too large to be floating point, and null where the model has no use for it."""
    if set(map(type, values)) == {float}:  # as nearly always
        return
    for name, value in zip(wanted, values, strict=True):
        if type(value) is int and abs(value) > 10**300:
            raise RequestError("the number is too large", joined(field, name))
        if value is None and loaded.fitted.nan == "error" and any(v is not None for v in values):
            raise RequestError(
                "the model was fitted with nan='error' and takes no missing value; leave the view "
                "out where it was not measured",
                joined(field, name),
            )


def _listed(
    given: list[Any],
    view: str,
    loaded: LoadedModel,
    orders: Mapping[str, Sequence[int]],
    field: str,
) -> list[Any]:
    width = len(loaded.columns[view])
    if len(given) != width:
        raise RequestError(f"{len(given)} values, the model was fitted on {width} columns", field)
    if view in orders:
        return [given[position] for position in orders[view]]
    if loaded.is_named(view):
        raise RequestError(
            "the columns of this view have names, and a list does not say its order: send an "
            'object of columns, or state the order once: "columns": '
            f"{{{json.dumps(view[:60])}: [...]}}",
            field,
        )
    return given
