"""`/predict`: probabilities and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewgap.prediction.blocks import Answers
from viewgap.serve import answers, schemas, tables
from viewgap.serve.body import JSON, accepted
from viewgap.serve.models import LoadedModel
from viewgap.serve.rows import Rows
from viewgap.serve.service import TABLES, Part, Route, maybe_in_thread
from viewgap.serve.settings import RequestError
from viewgap.serve.worker import Job

if TYPE_CHECKING:
    from fastapi import Request


class Predicting(Part):
    """Answers with probabilities and decisions of every row."""

    def routes(self) -> list[Route]:
        """The addresses."""
        return [Route("POST", "/predict", self.predict, schemas.PREDICT)]

    async def predict(self, request: Request) -> Any:
        """Probabilities and decisions of every row, in the order of the request."""
        from fastapi import Response

        loaded, rows, sent = await self._service.read_rows(request)
        kind = accepted(request, (JSON, *TABLES), sent)
        if kind != JSON and not tables.available():
            raise RequestError(tables.INSTALL, "Accept", 406)
        found = await self._service.answer(Job(loaded, rows.views))
        size = 8 * len(rows) * loaded.n_values
        content = await maybe_in_thread(size, lambda: _encoded(kind, loaded, rows, found))
        return Response(content, media_type=kind, headers={"Vary": "Accept"})


def _encoded(kind: str, loaded: LoadedModel, rows: Rows, found: Answers) -> bytes:
    if kind == JSON:
        return answers.prediction(loaded, rows, found)
    head = answers.head(loaded) | {"notes": answers.notes(loaded, rows)}
    return tables.write_table(kind, loaded, rows.ids, found, head)
