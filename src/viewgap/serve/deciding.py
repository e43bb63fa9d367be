"""`/decide`: every label certain, possible or ruled out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, first_few
from viewgap.serve import answers, schemas
from viewgap.serve.models import LoadedModel, guarantee
from viewgap.serve.rows import Rows
from viewgap.serve.service import Part, Route, maybe_in_thread
from viewgap.serve.settings import RequestError
from viewgap.serve.worker import Job

if TYPE_CHECKING:
    from fastapi import Request


class Deciding(Part):
    """Answers with label sets."""

    def routes(self) -> list[Route]:
        """The addresses."""
        return [Route("POST", "/decide", self.decide, schemas.DECIDE)]

    async def decide(self, request: Request) -> Any:
        """Every label certain, possible or ruled out, with a bounded risk."""
        asked = await self._service.read_json(request, set())
        loaded, rows = asked.loaded, asked.rows
        if loaded.label_sets is None:
            raise RequestError(_absent(loaded), "model", 404)
        words = await self._service.answer(Job(loaded, rows.views, _decided))
        size = 8 * len(rows) * loaded.n_values
        return await maybe_in_thread(size, lambda: _answer(loaded, rows, words))


def _absent(loaded: LoadedModel) -> str:
    if loaded.label_sets_problem:
        return f"model {loaded.name!r}: {loaded.label_sets_problem}"
    return (
        f"model {loaded.name!r} is served without label sets; start the service with "
        "--label-sets FILE (what LabelSets.save has written for this model)"
    )


def _decided(loaded: LoadedModel, views: ViewSet) -> list[list[str]]:
    """The words of every row; rows with the same views are answered together."""
    assert loaded.label_sets is not None  # noqa: S101  (asked before)
    words: list[list[str]] = [[] for _ in range(len(views))]
    patterns, of_row = np.unique(views.observed, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(of_row.reshape(-1) == number)
        try:
            found = loaded.label_sets.words(views[rows])
        except SettingError:
            names = [view for view, own in zip(views.names, pattern, strict=True) if own]
            raise RequestError(
                f"the label sets have no thresholds for rows with just these views: "
                f"{first_few(names, 20)}; save them with this pattern",
                f"rows[{rows[0]}].views",
            ) from None
        for row, line in zip(rows.tolist(), found.tolist(), strict=True):
            words[row] = line
    return words


def _answer(loaded: LoadedModel, rows: Rows, words: list[list[str]]) -> bytes:
    names = [str(name) for name in loaded.fitted.label_names_]
    no_view = (~rows.views.has_view).tolist()
    assert loaded.label_sets is not None  # noqa: S101
    head = answers.head(loaded) | guarantee(loaded.label_sets)
    lines = (
        {"id": own, "no_view": lost, "labels": dict(zip(names, line, strict=True))}
        for own, lost, line in zip(rows.ids, no_view, words, strict=True)
    )
    return answers.with_rows(head, lines, answers.notes(loaded, rows))
