"""`/models`, `/health`, `/ready`, `/metrics`: what is served, and how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewgap.serve import schemas
from viewgap.serve.answers import encoded
from viewgap.serve.metrics import TEXT
from viewgap.serve.models import described
from viewgap.serve.service import Part, Route

if TYPE_CHECKING:
    from fastapi import Request


class Status(Part):
    """Answers about the service itself."""

    def routes(self) -> list[Route]:
        """The addresses."""
        return [
            Route("GET", "/models", self.models, schemas.MODELS),
            Route("GET", "/health", self.health, schemas.HEALTH),
            Route("GET", "/ready", self.ready, schemas.READY),
            Route("GET", "/metrics", self.prometheus, schemas.METRICS),
        ]

    async def models(self, request: Request) -> Any:
        """Views, columns, labels and limits of every model."""
        store, settings = self._service.store, self._service.settings
        return encoded({"models": [described(model, settings) for model in store.models.values()]})

    async def health(self, request: Request) -> Any:
        """The process answers."""
        return encoded({"status": "ok"})

    async def ready(self, request: Request) -> Any:
        """Versions of the models, and where a new folder could not be loaded."""
        models = {
            name: {
                "version": model.loaded.version,
                "problem": model.problem or model.loaded.label_sets_problem or None,
            }
            for name, model in self._service.store.models.items()
        }
        return encoded({"status": "ready", "models": models})

    async def prometheus(self, request: Request) -> Any:
        """Requests, seconds, rows, batches and queues for Prometheus."""
        from fastapi import Response

        service = self._service
        waiting = {
            name: len(service.workers[name]) + len(service.explainers[name])
            for name in service.store.models
        }
        versions = {name: model.loaded.version for name, model in service.store.models.items()}
        return Response(service.metrics.text(waiting, versions), media_type=TEXT)
