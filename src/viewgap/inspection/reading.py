"""What reading data tells: warnings become notes, refused values an error that does not end it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from viewgap.errors import ViewError, ViewgapWarning
from viewgap.inspection.findings import Finding

Data = TypeVar("Data")


@contextmanager
def collected_notes() -> Iterator[list[Finding]]:
    """Give a list that holds, after the block, a note for every warning of viewgap inside it."""
    notes: list[Finding] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ViewgapWarning)
        yield notes
    texts: set[str] = set()
    for warning in told:
        if issubclass(warning.category, ViewgapWarning):
            text = str(warning.message)
            if text in texts:  # data may be read twice, as for the names of labels
                continue
            texts.add(text)
            notes.append(Finding("note", "reading", text, "make sure that this is meant"))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def without_refused_values(read: Callable[[str], Data], nan: str) -> tuple[Data, list[Finding]]:
    """What `read` gives with this policy for NaN; where it refuses values, what it gives without.

    The refusal is then an error among the findings. Anything else that is refused is raised.
    """
    try:
        return read(nan), []
    except ViewError as error:
        try:
            usable = read("missing_view")
        except ViewError:
            raise error from None
        told = "the rows that hold them count as missing in all that follows"
        return usable, [Finding("error", "refused_values", str(error), told)]
