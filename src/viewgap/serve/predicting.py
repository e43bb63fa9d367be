"""`/predict`: probabilities and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewgap.serve import answers, schemas
from viewgap.serve.service import Route, Service, maybe_in_thread
from viewgap.serve.worker import Job

if TYPE_CHECKING:
    from fastapi import Request


class Predicting:
    """Answers with probabilities and decisions of every row."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """The addresses."""
        return [Route("POST", "/predict", self.predict, schemas.PREDICT)]

    async def predict(self, request: Request) -> Any:
        """Probabilities and decisions of every row, in the order of the request."""
        asked = await self._service.read_json(request, set())
        loaded, rows = asked.loaded, asked.rows
        found = await self._service.answer(Job(loaded, rows.views))
        size = 8 * len(rows) * loaded.n_values
        return await maybe_in_thread(size, lambda: answers.prediction(loaded, rows, found))
