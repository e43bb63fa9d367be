"""What the OpenAPI description says about bodies, with examples."""

from __future__ import annotations

from typing import Any

_VIEW = {
    "description": "Values by column name; a list in the order of `columns`, or of the fit where "
    "columns have no names; null for a missing view.",
    "anyOf": [
        {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        {"type": "array", "items": {"type": ["number", "null"]}},
        {"type": "null"},
    ],
}
_ROW = {
    "type": "object",
    "required": ["views"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": ["string", "integer", "null"]},
        "views": {"type": "object", "additionalProperties": _VIEW},
    },
}
_ROWS = {
    "type": "object",
    "required": ["rows"],
    "additionalProperties": False,
    "properties": {
        "model": {"type": ["string", "null"]},
        "columns": {
            "type": ["object", "null"],
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        "rows": {"type": "array", "minItems": 1, "items": _ROW},
    },
}
_EXAMPLE = {
    "rows": [
        {"id": "p1", "views": {"genes": {"TP53": 0.4, "MYC": None}, "proteins": None}},
        {"id": "p2", "views": {"genes": {"TP53": -1.2, "MYC": 0.3}}},
    ]
}
_WORDS = {
    400: "The request is not right; `field` says where.",
    401: "The token is missing or wrong.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large, or has too many rows.",
    415: "This kind of body is not read here.",
    503: "Too many requests wait; try again after Retry-After seconds.",
}
PREDICT: dict[str, Any] = {
    "parameters": [
        {"name": "model", "in": "query", "required": False, "schema": {"type": "string"}}
    ],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _ROWS, "example": _EXAMPLE}},
    },
    "responses": {str(code): {"description": words} for code, words in _WORDS.items()},
}
