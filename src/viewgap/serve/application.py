"""The application: its addresses, and how every request is received, answered and counted."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from viewgap.errors import ViewgapError
from viewgap.serve import answers
from viewgap.serve.body import JSON, BodyReader, require_json
from viewgap.serve.metrics import TEXT, ServiceMetrics
from viewgap.serve.models import LoadedModel, ModelStore, described
from viewgap.serve.rows import Rows, parse_json, read_rows, refuse_unknown
from viewgap.serve.schemas import PREDICT
from viewgap.serve.settings import RequestError, ServiceSettings, busy, require_fastapi
from viewgap.serve.worker import Job, ModelWorker

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

log = logging.getLogger("viewgap.serve")

_OPEN = ("/health", "/ready")  # answered without a token
_SMALL_BODY = 2**15  # parsed where it is; a larger one in another thread
_KEYS = {"model", "rows", "columns"}
Handler = Callable[["Request"], Awaitable[Any]]


class Service:
    """What the requests of one application share.

    Parameters
    ----------
    store : ModelStore
        The models.
    settings : ServiceSettings
        The limits.
    """

    def __init__(self, store: ModelStore, settings: ServiceSettings) -> None:
        self.store, self.settings = store, settings
        self.metrics = ServiceMetrics()
        self.bodies = BodyReader(settings)
        self.workers = {name: ModelWorker(settings.queue, self.metrics) for name in store.models}

    async def predict(self, request: Request) -> Any:
        """`POST /predict`."""
        async with self.bodies.read(request) as body:
            require_json(request)
            loaded, rows = await _maybe_in_thread(len(body), lambda: self._rows(request, body))
        found = await self.answer(Job(loaded, rows.views))
        n_values = len(rows) * loaded.n_values
        return await _maybe_in_thread(
            8 * n_values, lambda: answers.encoded(answers.prediction(loaded, rows, found))
        )

    def _rows(self, request: Request, body: bytes) -> tuple[LoadedModel, Rows]:
        value = parse_json(body)
        refuse_unknown(value, _KEYS, "")
        named = value.get("model")
        if named is not None and not isinstance(named, str):
            raise RequestError("expected the name of a model", "model")
        asked = request.query_params.get("model")
        if named is not None and asked not in (None, named):
            raise RequestError("the address and the body name different models", "model")
        loaded = self.store.find(named if asked is None else asked).loaded
        return loaded, read_rows(value, loaded, self.settings)

    async def answer(self, job: Job) -> Any:
        """The result of a job; 503 where the queue is full or time runs out."""
        future = self.workers[job.loaded.name].submit(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.settings.timeout)
        except TimeoutError:
            seconds = f"{self.settings.timeout:g} seconds"
            raise busy(f"no answer within {seconds}; send fewer rows, or try again") from None
        except ViewgapError as error:
            raise RequestError(str(error)) from None

    async def models(self, request: Request) -> Any:
        """`GET /models`."""
        found = [described(model, self.settings) for model in self.store.models.values()]
        return answers.encoded({"models": found})

    async def health(self, request: Request) -> Any:
        """`GET /health`: the process answers."""
        return answers.encoded({"status": "ok"})

    async def ready(self, request: Request) -> Any:
        """`GET /ready`: models are loaded; says where a new folder could not be."""
        models = {
            name: {"version": model.loaded.version, "problem": model.problem or None}
            for name, model in self.store.models.items()
        }
        return answers.encoded({"status": "ready", "models": models})

    async def prometheus(self, request: Request) -> Any:
        """`GET /metrics`."""
        from fastapi import Response

        waiting = {name: len(worker) for name, worker in self.workers.items()}
        versions = {name: model.loaded.version for name, model in self.store.models.items()}
        return Response(self.metrics.text(waiting, versions), media_type=TEXT)

    async def watch(self) -> None:
        """Look at the model folders again and again."""
        while True:
            await asyncio.sleep(self.settings.reload_interval)
            await asyncio.to_thread(self.store.refresh)

    def check_token(self, request: Request) -> None:
        """Refuse a request without the token, if there is one."""
        if self.settings.token is None or request.url.path in _OPEN:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), self.settings.token.encode())
        if kind.lower() != "bearer" or not right:
            headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            raise RequestError("the token is missing or wrong", status=401, headers=headers)

    def guarded(self, path: str, handler: Handler) -> Handler:
        """`handler` with its errors as answers: what is not a `RequestError` is told to the log."""

        async def answer(request: Request) -> Response:
            started = time.monotonic()
            response = await self._respond(request, handler)
            self.metrics.count_request(path, response.status_code, time.monotonic() - started)
            return response

        return answer

    async def _respond(self, request: Request, handler: Handler) -> Response:
        from fastapi import Response
        from starlette.requests import ClientDisconnect

        try:
            self.check_token(request)
            result = await handler(request)
        except RequestError as error:
            return _error(error)
        except ClientDisconnect:
            return _error(RequestError("the client has gone"))
        except Exception:
            number = secrets.token_hex(8)
            log.exception("error %s at %s", number, request.url.path)
            return _error(RequestError(f"internal error {number}; the log has more", status=500))
        return result if isinstance(result, Response) else Response(result, media_type=JSON)


async def _maybe_in_thread(size: int, function: Callable[[], Any]) -> Any:
    """Call in another thread what would keep other requests waiting."""
    return function() if size <= _SMALL_BODY else await asyncio.to_thread(function)


def _error(error: RequestError) -> Response:
    from fastapi import Response

    content = answers.encoded({"error": {"message": error.message, "field": error.field or None}})
    return Response(content, error.status, error.headers, media_type=JSON)


def create_app(
    model_folders: Mapping[str, Any] | Sequence[Any], settings: ServiceSettings | None = None
) -> FastAPI:
    """Make the application that serves saved models.

    Parameters
    ----------
    model_folders : sequence of paths, or mapping of str to path
        Model folders, or their paths by the names that clients use.
    settings : ServiceSettings, optional
        Limits, token and label sets.

    Returns
    -------
    FastAPI
        With the `Service` as `app.state.service`.

    Examples
    --------
    >>> import tempfile, numpy as np, viewgap
    >>> from viewgap.serve import create_app
    >>> X = {"a": np.random.default_rng(0).normal(size=(30, 3))}
    >>> model = viewgap.LateFusionRidge().fit(X, (X["a"] > 0).astype(float))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     viewgap.save_model(model, f"{folder}/model")
    ...     app = create_app([f"{folder}/model"])
    >>> sorted(app.openapi()["paths"])
    ['/health', '/metrics', '/models', '/predict', '/ready']
    """
    require_fastapi()
    from fastapi import FastAPI

    limits = settings or ServiceSettings()
    service = Service(ModelStore(model_folders), limits)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(service.watch())
        yield
        watching.cancel()
        for worker in service.workers.values():
            await asyncio.to_thread(worker.stop)

    # The pages of FastAPI load scripts from elsewhere; /openapi.json is all that is needed.
    app = FastAPI(title="viewgap", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.service = service
    _add_routes(app, service)
    return app


def _add_routes(app: FastAPI, service: Service) -> None:
    from fastapi import Request, Response
    from starlette.exceptions import HTTPException

    routes: list[tuple[str, str, Handler, dict[str, Any]]] = [
        ("POST", "/predict", service.predict, PREDICT),
        ("GET", "/models", service.models, {}),
        ("GET", "/health", service.health, {}),
        ("GET", "/ready", service.ready, {}),
        ("GET", "/metrics", service.prometheus, {}),
    ]
    for method, path, handler, schema in routes:
        endpoint = service.guarded(path, handler)
        endpoint.__annotations__ = {"request": Request, "return": Response}
        app.add_api_route(
            path,
            endpoint,
            methods=[method],
            summary=(handler.__doc__ or "").strip("`. "),
            operation_id=path.strip("/"),
            openapi_extra=schema,
            response_class=Response,
        )

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        return _error(RequestError(str(error.detail), status=error.status_code,
                                   headers=error.headers))  # fmt: skip

    app.add_exception_handler(HTTPException, refused)
