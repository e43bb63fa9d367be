"""What the requests of one application share: models, limits, queues; how each one is answered."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from viewgap.errors import ViewgapError, is_out_of_memory
from viewgap.serve import tables
from viewgap.serve.answers import encoded
from viewgap.serve.body import JSON, BodyReader, content_type
from viewgap.serve.metrics import ServiceMetrics
from viewgap.serve.models import LoadedModel, ModelStore
from viewgap.serve.rows import Rows, parse_json, read_rows, refuse_unknown
from viewgap.serve.settings import RequestError, ServiceSettings, busy
from viewgap.serve.worker import Job, ModelWorker

if TYPE_CHECKING:
    from fastapi import Request, Response

log = logging.getLogger("viewgap.serve")

OPEN = {"/", "/health", "/ready", "/v2/health/live", "/v2/health/ready"}
"""Answered without a token; the page says nothing of a model."""
_SMALL = 2**15  # bytes that are parsed where they are; more of them in another thread
_ROW_KEYS = {"model", "rows", "columns"}
TABLES = (tables.PARQUET, tables.ARROW)
Result = TypeVar("Result")
Handler = Callable[["Request"], Awaitable[Any]]


def error_body(error: RequestError) -> bytes:
    """An error as clients get it: what is wrong, and where in the request."""
    return encoded({"error": {"message": error.message, "field": error.field or None}})


@dataclass(frozen=True)
class Route:
    """An address of the service.

    A part of the path in braces is given to the handler, a coroutine from a request to a Response,
    or to the bytes of a JSON body; its first docstring line becomes the summary of the OpenAPI
    description, and `openapi` the rest of it. `error_body` makes an error the body of an answer.
    """

    method: str
    path: str
    handler: Handler
    openapi: Mapping[str, Any] = field(default_factory=dict)
    error_body: Callable[[RequestError], bytes] = error_body


class Service:
    """Models, limits and queues, and how a request is received, answered and counted."""

    def __init__(self, store: ModelStore, settings: ServiceSettings) -> None:
        self.store, self.settings = store, settings
        self.metrics = ServiceMetrics()
        self.bodies = BodyReader(settings)
        self.workers = {name: ModelWorker(settings.queue, self.metrics) for name in store.models}
        # An explanation takes many predictions: it does not keep plain ones waiting.
        self.explainers = {name: ModelWorker(settings.queue, self.metrics) for name in store.models}

    def all_workers(self) -> Iterator[ModelWorker]:
        """The threads of all models."""
        yield from self.workers.values()
        yield from self.explainers.values()

    # ------------------------------------------------------------------ rows and answers

    async def read_rows(self, request: Request) -> tuple[LoadedModel, Rows, str]:
        """The model, the rows and the kind of a body: JSON, Parquet or an Arrow stream."""
        async with self.bodies.read(request) as body:
            kind = content_type(request, (JSON, *TABLES))
            if kind == JSON:
                asked = await maybe_in_thread(len(body), lambda: self._parsed(request, body, set()))
                return asked.loaded, asked.rows, kind
            if not tables.available():
                raise RequestError(tables.INSTALL, status=415)
            loaded = self.find_model(request)
            rows = await asyncio.to_thread(tables.read_table, body, kind, loaded, self.settings)
            return loaded, rows, kind

    async def read_json(self, request: Request, keys: set[str]) -> JsonRequest:
        """The rows of a JSON body, its model, and its own keys beside those of all bodies."""
        async with self.bodies.read(request) as body:
            content_type(request)
            return await maybe_in_thread(len(body), lambda: self._parsed(request, body, keys))

    def _parsed(self, request: Request, body: bytes, keys: set[str]) -> JsonRequest:
        value = parse_json(body)
        refuse_unknown(value, _ROW_KEYS | keys, "")
        named = value.get("model")
        if named is not None and not isinstance(named, str):
            raise RequestError("expected the name of a model", "model")
        loaded = self.find_model(request, named)
        return JsonRequest(value, loaded, read_rows(value, loaded, self.settings))

    def find_model(self, request: Request, named: str | None = None) -> LoadedModel:
        """The model that the address (`?model=`) or the body names."""
        asked = request.query_params.get("model")
        if named is not None and asked not in (None, named):
            raise RequestError("the address and the body name different models", "model")
        return self.store.find(named if asked is None else asked).loaded

    async def answer(self, job: Job, workers: Mapping[str, ModelWorker] | None = None) -> Any:
        """The result of a job; 503 where the queue is full or time runs out."""
        worker = (self.workers if workers is None else workers)[job.loaded.name]
        future = worker.submit(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.settings.timeout)
        except TimeoutError:
            seconds = f"{self.settings.timeout:g} seconds"
            raise busy(f"no answer within {seconds}; send fewer rows, or try again") from None
        except ViewgapError as error:
            if error.__cause__ is not None and is_out_of_memory(error.__cause__):
                log.error("model %s: %s", job.loaded.name, error)
                words = "there is not enough memory for these rows; send fewer, or try again"
                raise busy(words) from None
            raise RequestError(str(error)) from None

    # ------------------------------------------------------------------ requests

    def check_token(self, request: Request) -> None:
        """Refuse a request without the token, if there is one."""
        if self.settings.token is None or request.url.path in OPEN:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), self.settings.token.encode())
        if kind.lower() != "bearer" or not right:
            headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            raise RequestError("the token is missing or wrong", status=401, headers=headers)

    def guarded(self, route: Route) -> Handler:
        """A handler with its errors as answers: what is not a `RequestError` is told to the log."""

        async def answer(request: Request) -> Response:
            started = time.monotonic()
            response = await self._respond(request, route)
            seconds = time.monotonic() - started
            self.metrics.count_request(route.path, response.status_code, seconds)
            return response

        return answer

    async def _respond(self, request: Request, route: Route) -> Response:
        from fastapi import Response
        from starlette.requests import ClientDisconnect

        try:
            self.check_token(request)
            result = await route.handler(request)
        except RequestError as error:
            return error_response(error, route.error_body)
        except ClientDisconnect:
            return error_response(RequestError("the client has gone"), route.error_body)
        except Exception:
            number = secrets.token_hex(8)
            log.exception("error %s at %s", number, request.url.path)
            found = RequestError(f"internal error {number}; the log has more", status=500)
            return error_response(found, route.error_body)
        return result if isinstance(result, Response) else Response(result, media_type=JSON)

    async def watch(self) -> None:
        """Look at the model folders again and again."""
        while True:
            await asyncio.sleep(self.settings.reload_interval)
            await asyncio.to_thread(self.store.refresh)


class Part(ABC):
    """Some addresses of a service, and how they are answered."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @abstractmethod
    def routes(self) -> list[Route]:
        """The addresses."""


@dataclass(frozen=True, eq=False)
class JsonRequest:
    """A JSON body: all of it, the model that it is for, and its rows."""

    value: dict[str, Any]
    loaded: LoadedModel
    rows: Rows


async def maybe_in_thread(size: int, function: Callable[[], Result]) -> Result:
    """Call in another thread what would keep other requests waiting; `size` is in bytes."""
    return function() if size <= _SMALL else await asyncio.to_thread(function)


def error_response(
    error: RequestError, body: Callable[[RequestError], bytes] = error_body
) -> Response:
    """The answer to a request that is refused."""
    from fastapi import Response

    return Response(body(error), error.status, error.headers, media_type=JSON)
