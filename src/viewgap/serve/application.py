"""The application: the addresses of a service, under FastAPI."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from viewgap.serve.deciding import Deciding
from viewgap.serve.explaining import Explaining
from viewgap.serve.inference import Inference
from viewgap.serve.inference import error_body as v2_error_body
from viewgap.serve.models import ModelStore
from viewgap.serve.page import Page
from viewgap.serve.predicting import Predicting
from viewgap.serve.service import Route, Service, error_body, error_response
from viewgap.serve.settings import RequestError, ServiceSettings, require_fastapi
from viewgap.serve.status import Status

if TYPE_CHECKING:
    from fastapi import FastAPI

_PARTS = (Page, Predicting, Explaining, Deciding, Inference, Status)


def create_app(
    model_folders: Mapping[str, Any] | Sequence[Any],
    settings: ServiceSettings | None = None,
    label_sets: Mapping[str, Any] | None = None,
) -> FastAPI:
    """Make the application that serves saved models.

    Parameters
    ----------
    model_folders : sequence of paths, or mapping of str to path
        Model folders, or their paths by the names that clients use.
    settings : ServiceSettings, optional
        Limits and token.
    label_sets : mapping of str to path, optional
        What `LabelSets.save` has written, by the name of the model that it is for. Models without
        have no `/decide`.

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
    >>> sorted(app.openapi()["paths"])[:3]
    ['/', '/decide', '/example']
    """
    require_fastapi()
    from fastapi import FastAPI

    service = Service(ModelStore(model_folders, label_sets), settings or ServiceSettings())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for worker in service.all_workers():
            worker.start()
        watching = asyncio.create_task(service.watch())
        yield
        watching.cancel()
        for worker in service.all_workers():
            await asyncio.to_thread(worker.stop)

    # The pages of FastAPI load scripts from elsewhere; /openapi.json is all that is needed.
    app = FastAPI(title="viewgap", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.service = service
    routes = [route for part in _PARTS for route in part(service).routes()]
    for route in routes:
        _add_route(app, service, route)
    _describe(app, routes)
    _add_refusals(app)
    return app


def _add_route(app: FastAPI, service: Service, route: Route) -> None:
    from fastapi import Request, Response

    endpoint = service.guarded(route)
    endpoint.__annotations__ = {"request": Request, "return": Response}
    app.add_api_route(
        route.path,
        endpoint,
        methods=[route.method],
        summary=(route.handler.__doc__ or "").partition("\n")[0].strip("."),
        operation_id=route.handler.__name__,
        response_class=Response,
    )


def _describe(app: FastAPI, routes: Sequence[Route]) -> None:
    """Put the routes' own parts into the OpenAPI description as they are.

    FastAPI leaves out every null, and with them the missing views and values of the examples.
    """
    paths = app.openapi()["paths"]
    for route in routes:
        paths[route.path][route.method.lower()].update(copy.deepcopy(dict(route.openapi)))


def _add_refusals(app: FastAPI) -> None:
    """Answers to what reaches no handler: other addresses and methods."""
    from fastapi import Request, Response
    from starlette.exceptions import HTTPException

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        found = RequestError(str(error.detail), "", error.status_code, error.headers)
        is_v2 = request.url.path.startswith("/v2")
        return error_response(found, v2_error_body if is_v2 else error_body)

    app.add_exception_handler(HTTPException, refused)
