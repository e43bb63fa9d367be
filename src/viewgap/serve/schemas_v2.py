"""What the OpenAPI description says about the Open Inference Protocol, with examples."""

from __future__ import annotations

from typing import Any

from viewgap.serve.schemas import (
    COUNT,
    FLAG,
    NUMBER_OR_NULL,
    TEXT_OR_NULL,
    WORDS,
    Schema,
    content,
    listed,
    record,
)

_V2_ERROR = record({"error": {"type": "string"}})
_V2_PARAMETERS: Schema = {"type": "object"}
_V2_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_DATATYPE: Schema = {"enum": ["FP32", "FP64"]}
_V2_TENSOR = record(
    {
        "name": {"type": "string", "description": "A view; one without a tensor is missing."},
        "shape": {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2},
        "datatype": _DATATYPE,
        "parameters": {
            "description": "`columns`: names of the columns, where their order is not that of the "
            "model's metadata.",
            "anyOf": [_V2_PARAMETERS, {"type": "null"}],
        },
        "data": {
            "description": "Row by row, flat or as a list of rows; null for a missing value.",
            "anyOf": [listed(NUMBER_OR_NULL), listed(listed(NUMBER_OR_NULL))],
        },
    },
    ("parameters",),
)  # fmt: skip
_V2_REQUEST = record(
    {
        "id": TEXT_OR_NULL,
        "parameters": {},
        "inputs": {"type": "array", "minItems": 1, "items": _V2_TENSOR},
        "outputs": {
            "anyOf": [
                listed(
                    record({"name": {"const": "probabilities"}, "parameters": {}}, ("parameters",))
                ),
                {"type": "null"},
            ]
        },
    },
    ("id", "parameters", "outputs"),
)
_V2_REQUEST_EXAMPLE = {
    "inputs": [{"name": "genes", "shape": [1, 2], "datatype": "FP64", "data": [0.4, None]}]
}
_V2_OUTPUT = record(
    {
        "name": {"const": "probabilities"},
        "shape": listed(COUNT),
        "datatype": {"const": "FP64"},
        "data": listed(NUMBER_OR_NULL),
    }
)
_V2_ANSWER = record(
    {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "outputs": listed(_V2_OUTPUT),
    },
    ("id",),
)
_V2_ANSWER_EXAMPLE = {
    "model_name": "cells",
    "model_version": "1",
    "outputs": [
        {"name": "probabilities", "shape": [1, 2], "datatype": "FP64", "data": [0.81, 0.12]}
    ],
}
_V2_METADATA_TENSOR = record(
    {
        "name": {"type": "string"},
        "datatype": {"const": "FP64"},
        "shape": listed({"type": "integer"}),
        "parameters": _V2_PARAMETERS,
    }
)
_V2_METADATA = record(
    {
        "name": {"type": "string"},
        "versions": listed({"type": "string"}),
        "platform": {"const": "viewgap"},
        "inputs": listed(_V2_METADATA_TENSOR),
        "outputs": listed(_V2_METADATA_TENSOR),
    }
)
_V2_METADATA_EXAMPLE = {
    "name": "cells",
    "versions": ["1"],
    "platform": "viewgap",
    "inputs": [
        {
            "name": "genes",
            "datatype": "FP64",
            "shape": [-1, 2],
            "parameters": {"columns": ["TP53", "MYC"], "optional": True},
        }
    ],
    "outputs": [
        {
            "name": "probabilities",
            "datatype": "FP64",
            "shape": [-1, 2],
            "parameters": {"labels": ["relapse", "remission"]},
        }
    ],
}


def _v2(
    words: str, answer: Schema, example: Any, codes: tuple[int, ...], parameters: list[Schema]
) -> Schema:
    errors = {
        str(code): {
            "description": WORDS[code].replace("`field`", "the text"),
            "content": content(_V2_ERROR, {"error": "inputs[0].shape: expected [rows, 2]"}),
        }
        for code in codes
    }
    own = {"200": {"description": words, "content": content(answer, example)}}
    return {"parameters": parameters, "responses": errors | own}


V2_SERVER = _v2(
    "Name and version.",
    record(
        {"name": {"type": "string"}, "version": {"type": "string"}, "extensions": {"type": "array"}}
    ),
    {"name": "viewgap", "version": "1.0", "extensions": []},
    (401,),
    [],
)
V2_LIVE = _v2("It answers.", record({"live": FLAG}), {"live": True}, (), [])
V2_READY = _v2("Models are loaded.", record({"ready": FLAG}), {"ready": True}, (), [])
V2_MODEL = _v2("Tensors.", _V2_METADATA, _V2_METADATA_EXAMPLE, (401, 404), [_V2_NAME])
V2_MODEL_READY = _v2(
    "It is loaded.",
    record({"name": {"type": "string"}, "ready": FLAG}),
    {"name": "cells", "ready": True},
    (401, 404),
    [_V2_NAME],
)
V2_INFER: Schema = {
    **_v2("Probabilities.", _V2_ANSWER, _V2_ANSWER_EXAMPLE, tuple(WORDS), [_V2_NAME]),
    "requestBody": {"required": True, "content": content(_V2_REQUEST, _V2_REQUEST_EXAMPLE)},
}
