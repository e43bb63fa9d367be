"""A view that the model does not know, with the columns of one that is not there: renamed?

Left out, it would be missing for every sample, and the answers would be other ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewgap.data.viewset import ViewSet

Columns = Sequence[str] | int
"""The names of the columns of a view; how many there are, where they have none."""

_MOST = 0.5  # share of a view's columns from which on another view could be it


@dataclass(frozen=True)
class Renamed:
    """A view of the data that could be one of the model: their names, and why."""

    given: str
    known: str
    reason: str

    def question(self, place: str) -> str:
        """The question of a message; `place` is how it calls the view of the data."""
        return (
            f"{place} is no view of the model, and has {self.reason} its view {self.known!r}, "
            "which is not there"
        )

    @property
    def remedy(self) -> str:
        """What to do."""
        return f"if it is that view, name it {self.known!r}; else leave it out"


def find_renamed(unknown: Mapping[str, Columns], absent: Mapping[str, Columns]) -> Renamed | None:
    """Return the first unknown view that could be one of the absent ones.

    Parameters
    ----------
    unknown : mapping of str to columns
        Views of the data that the model does not know.
    absent : mapping of str to columns
        Views of the model that the data does not have.

    Returns
    -------
    Renamed or None

    Examples
    --------
    >>> find_renamed({"expression": ["TP53", "ATM"]}, {"genes": ["TP53", "ATM"]}).reason
    'all 2 columns of'
    """
    for given, columns in unknown.items():
        shares = {known: _share(columns, own) for known, own in absent.items()}
        best = max(shares, key=lambda known: shares[known], default=None)
        if best is not None and shares[best] >= _MOST:
            return Renamed(given, best, _reason(columns, absent[best]))
    return None


def renamed_view(
    views: ViewSet,
    names: Sequence[str],
    dims: Sequence[int],
    feature_names: Mapping[str, Sequence[str]],
) -> Renamed | None:
    """Return the view that could be one of a model; `names`, `dims`, ... are the model's."""
    own = {name: views.feature_names[name] or dim for name, dim in _widths(views) if dim}
    unknown = {name: columns for name, columns in own.items() if name not in names}
    absent = {
        name: feature_names.get(name) or dim
        for name, dim in zip(names, dims, strict=True)
        if name not in views.names
    }
    return find_renamed(unknown, absent)


def _widths(views: ViewSet) -> list[tuple[str, int]]:
    return list(zip(views.names, views.dims, strict=True))


def _share(columns: Columns, wanted: Columns) -> float:
    """The share of the wanted columns that are there; without names, whether they are as many."""
    if isinstance(columns, int) or isinstance(wanted, int):
        return float(_count(columns) == _count(wanted))
    return len(set(wanted) & set(columns)) / max(1, len(wanted))


def _reason(columns: Columns, wanted: Columns) -> str:
    n_wanted = _count(wanted)
    if isinstance(columns, int) or isinstance(wanted, int):
        return f"as many columns ({n_wanted:,}) as"
    n_common = len(set(wanted) & set(columns))
    return f"{'all' if n_common == n_wanted else f'{n_common:,} of the'} {n_wanted:,} columns of"


def _count(columns: Columns) -> int:
    return columns if isinstance(columns, int) else len(columns)
