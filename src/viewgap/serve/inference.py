"""The Open Inference Protocol under `/v2`: one tensor per view, probabilities as the answer.

A view without a tensor is missing for all rows, null is NaN, and a row of a tensor that has only
nulls is a view that this row lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import viewgap
from viewgap.errors import first_few
from viewgap.serve import schemas_v2
from viewgap.serve.answers import encoded, numbers
from viewgap.serve.body import content_type
from viewgap.serve.models import LoadedModel
from viewgap.serve.rows import (
    Rows,
    as_object,
    as_views,
    check_n_rows,
    column_positions,
    joined,
    kind_of,
    parse_json,
    refuse_unknown,
)
from viewgap.serve.schemas import Schema
from viewgap.serve.service import Handler, Part, Route, maybe_in_thread
from viewgap.serve.settings import RequestError, ServiceSettings
from viewgap.serve.worker import Job

if TYPE_CHECKING:
    from fastapi import Request

OUTPUT = "probabilities"
_DTYPES: dict[str, Any] = {"FP32": np.float32, "FP64": np.float64}
_KEYS = {"id", "parameters", "inputs", "outputs"}
_TENSOR_KEYS = {"name", "shape", "datatype", "parameters", "data"}


def error_body(error: RequestError) -> bytes:
    """An error as this protocol has it: one text."""
    place = f"{error.field}: " if error.field else ""
    return encoded({"error": place + error.message})


class Inference(Part):
    """Answers in the Open Inference Protocol, version 2."""

    def routes(self) -> list[Route]:
        """The addresses."""

        def get(path: str, handler: Handler, openapi: Schema) -> Route:
            return Route("GET", path, handler, openapi, error_body)

        return [
            get("/v2", self.v2_server, schemas_v2.V2_SERVER),
            get("/v2/health/live", self.v2_live, schemas_v2.V2_LIVE),
            get("/v2/health/ready", self.v2_ready, schemas_v2.V2_READY),
            get("/v2/models/{name}", self.v2_model, schemas_v2.V2_MODEL),
            get("/v2/models/{name}/ready", self.v2_model_ready, schemas_v2.V2_MODEL_READY),
            Route(
                "POST", "/v2/models/{name}/infer", self.v2_infer, schemas_v2.V2_INFER, error_body
            ),
        ]

    async def v2_server(self, request: Request) -> Any:
        """Name and version of the server."""
        return encoded({"name": "viewgap", "version": viewgap.__version__, "extensions": []})

    async def v2_live(self, request: Request) -> Any:
        """The process answers."""
        return encoded({"live": True})

    async def v2_ready(self, request: Request) -> Any:
        """All models are loaded."""
        return encoded({"ready": True})

    async def v2_model(self, request: Request) -> Any:
        """Inputs and outputs of a model: a tensor per view, with its columns in order."""
        loaded = self._find(request)
        return encoded(
            {
                "name": loaded.name,
                "versions": [str(loaded.version)],
                "platform": "viewgap",
                "inputs": [
                    {
                        "name": view,
                        "datatype": "FP64",
                        "shape": [-1, len(columns)],
                        "parameters": {"columns": list(columns), "optional": True},
                    }
                    for view, columns in loaded.columns.items()
                ],
                "outputs": [
                    {
                        "name": OUTPUT,
                        "datatype": "FP64",
                        "shape": [-1, len(loaded.fitted.label_names_)],
                        "parameters": {"labels": list(map(str, loaded.fitted.label_names_))},
                    }
                ],
            }
        )

    async def v2_model_ready(self, request: Request) -> Any:
        """The model is loaded."""
        loaded = self._find(request)
        return encoded({"name": loaded.name, "ready": True})

    async def v2_infer(self, request: Request) -> Any:
        """Probabilities of the rows of a tensor per view."""
        async with self._service.bodies.read(request) as body:
            content_type(request)
            loaded = self._find(request)
            settings = self._service.settings
            own, rows = await maybe_in_thread(len(body), lambda: _parsed(body, loaded, settings))
        found = await self._service.answer(Job(loaded, rows.views))
        return await maybe_in_thread(
            found.probabilities.nbytes, lambda: _answer(loaded, own, found.probabilities)
        )

    def _find(self, request: Request) -> LoadedModel:
        return self._service.store.find(request.path_params["name"], "").loaded


# ---------------------------------------------------------------------- request


def _parsed(body: bytes, loaded: LoadedModel, settings: ServiceSettings) -> tuple[str | None, Rows]:
    value = parse_json(body)
    refuse_unknown(value, _KEYS, "")
    own = value.get("id")
    if own is not None and not isinstance(own, str):
        raise RequestError(f"expected text, found {kind_of(own)}", "id")
    _check_outputs(value.get("outputs"))
    inputs = value.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise RequestError("expected a list of tensors, one per view", "inputs")
    values: dict[str, NDArray[np.float64]] = {}
    for i, tensor in enumerate(inputs):
        field = f"inputs[{i}]"
        view = _view_of(tensor, loaded, field)
        if view in values:
            raise RequestError(f"two tensors for the view {view[:60]!r}", joined(field, "name"))
        values[view] = _tensor(tensor, view, loaded, settings, field)
        if len(values[view]) != len(next(iter(values.values()))):
            words = "all tensors need the same number of rows"
            raise RequestError(words, joined(field, "shape"))
    n_rows = len(next(iter(values.values())))
    check_n_rows(n_rows, loaded, settings, "inputs[0].shape")
    return own, Rows([None] * n_rows, as_views(values, n_rows, loaded))


def _check_outputs(outputs: Any) -> None:
    if outputs is None:
        return
    if not isinstance(outputs, list):
        raise RequestError(f"expected a list, found {kind_of(outputs)}", "outputs")
    for i, output in enumerate(outputs):
        field = f"outputs[{i}]"
        refuse_unknown(as_object(output, field), {"name", "parameters"}, field)
        if output.get("name") != OUTPUT:
            raise RequestError(f"there is one output, {OUTPUT!r}", joined(field, "name"))


def _view_of(tensor: Any, loaded: LoadedModel, field: str) -> str:
    refuse_unknown(as_object(tensor, field), _TENSOR_KEYS, field)
    name = tensor.get("name")
    if not isinstance(name, str) or name not in loaded.columns:
        known = first_few(loaded.columns, 20)
        raise RequestError(f"expected the name of a view: {known}", joined(field, "name"))
    return name


def _tensor(
    tensor: dict[str, Any], view: str, loaded: LoadedModel, settings: ServiceSettings, field: str
) -> NDArray[np.float64]:
    """The values of a view, (n, d) float64 in the order of the model, NaN for null."""
    n_rows, width = _shape(tensor.get("shape"), len(loaded.columns[view]), field)
    check_n_rows(n_rows, loaded, settings, joined(field, "shape"))
    datatype = tensor.get("datatype")
    if not isinstance(datatype, str) or datatype not in _DTYPES:
        words = f"expected {' or '.join(_DTYPES)}"
        raise RequestError(words, joined(field, "datatype"))
    flat = _flat(tensor.get("data"), n_rows, width, joined(field, "data"))
    values = np.array(flat, dtype=np.float64).reshape(n_rows, width)
    with np.errstate(over="ignore"):
        values = values.astype(_DTYPES[datatype]).astype(np.float64)
    if np.isinf(values).any():
        at = int(np.flatnonzero(np.isinf(values))[0])
        words = f"value {at} is too large for {datatype}"
        raise RequestError(words, joined(field, "data"))
    _check_missing(values, loaded, joined(field, "data"))
    order = _order(tensor.get("parameters"), loaded.columns[view], joined(field, "parameters"))
    return values if order is None else values[:, order]


def _shape(shape: Any, width: int, field: str) -> tuple[int, int]:
    whole = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)
    if not whole or shape[0] < 1 or shape[1] != width:
        words = f"expected [rows, {width}]: the model was fitted on {width} columns"
        raise RequestError(words, joined(field, "shape"))
    return shape[0], shape[1]


def _flat(given: Any, n_rows: int, width: int, field: str) -> list[Any]:
    """`data` row by row: it may come in one list, or as a list of rows."""
    if not isinstance(given, list):
        raise RequestError(f"expected a list, found {kind_of(given)}", field)
    data: list[Any] = given
    if data and all(isinstance(row, list) for row in data):
        wrong = next((i for i, row in enumerate(data) if len(row) != width), None)
        if wrong is not None:
            raise RequestError(f"expected {width} values", f"{field}[{wrong}]")
        data = [value for row in data for value in row]
    if len(data) != n_rows * width:
        raise RequestError(f"{len(data):,} values, the shape says {n_rows * width:,}", field)
    for i, value in enumerate(data):
        if type(value) not in (int, float, type(None)):
            raise RequestError(
                f"expected a number or null, found {kind_of(value)}", f"{field}[{i}]"
            )
        if type(value) is int and abs(value) > 10**300:
            raise RequestError("the number is too large", f"{field}[{i}]")
    return data


def _check_missing(values: NDArray[np.float64], loaded: LoadedModel, field: str) -> None:
    missing = np.isnan(values)
    if loaded.fitted.nan == "error" and (missing.any(axis=1) & ~missing.all(axis=1)).any():
        raise RequestError(
            "the model was fitted with nan='error' and takes no missing value; a row has all "
            "values, or only nulls where the view was not measured",
            field,
        )


def _order(parameters: Any, wanted: tuple[str, ...], field: str) -> list[int] | None:
    """Where the columns of the model stand, if the request names its own."""
    if parameters is None or "columns" not in as_object(parameters, field):
        return None
    return column_positions(parameters["columns"], wanted, joined(field, "columns"))


# ---------------------------------------------------------------------- answer


def _answer(loaded: LoadedModel, own: str | None, probabilities: NDArray[np.float64]) -> bytes:
    output = {
        "name": OUTPUT,
        "shape": list(probabilities.shape),
        "datatype": "FP64",
        "data": numbers(probabilities.ravel().tolist()),
    }
    head: dict[str, Any] = {"model_name": loaded.name, "model_version": str(loaded.version)}
    if own is not None:
        head["id"] = own
    return encoded(head | {"outputs": [output]})
