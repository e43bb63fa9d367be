"""What the OpenAPI description says about requests and answers, with examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewgap.serve.tables import ARROW, PARQUET

Schema = dict[str, Any]

NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
_LEVEL: Schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}


def record(properties: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """An object with just these keys."""
    required = [key for key in properties if key not in optional]
    return {
        "type": "object",
        "required": required,
        "additionalProperties": False,
        "properties": dict(properties),
    }


def by_name(value: Schema) -> Schema:
    """An object whose keys are names."""
    return {"type": "object", "additionalProperties": value}


def listed(value: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": value}


# ---------------------------------------------------------------------- requests

_VIEW: Schema = {
    "description": "Values by column name; a list in the order of `columns`, or of the fit where "
    "columns have no names; null for a missing view.",
    "anyOf": [by_name(NUMBER_OR_NULL), listed(NUMBER_OR_NULL), {"type": "null"}],
}
_ROW = record({"id": {"type": ["string", "integer", "null"]}, "views": by_name(_VIEW)}, ("id",))
_ROWS_KEYS: dict[str, Schema] = {
    "model": {**TEXT_OR_NULL, "description": "Needed where several models are served."},
    "columns": {
        "description": "Order of the values of views that are given as lists.",
        "anyOf": [by_name(listed({"type": "string"})), {"type": "null"}],
    },
    "rows": {"type": "array", "minItems": 1, "items": _ROW},
}
_ROWS = record(_ROWS_KEYS, ("model", "columns"))
_EXPLAIN_ROWS = record(
    {
        **_ROWS_KEYS,
        "labels": {
            "description": "Labels to explain; all of them without.",
            "anyOf": [
                {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string"}},
                {"type": "null"},
            ],
        },
        "scale": {"enum": ["probability", "log_odds"], "default": "probability"},
        "interactions": {"type": "boolean", "default": False},
    },
    ("model", "columns", "labels", "scale", "interactions"),
)
_EXAMPLE = {
    "rows": [
        {"id": "p1", "views": {"genes": {"TP53": 0.4, "MYC": None}, "proteins": None}},
        {"id": "p2", "views": {"genes": {"TP53": -1.2, "MYC": 0.3}}},
    ]
}

# ---------------------------------------------------------------------- answers

_HEAD: dict[str, Schema] = {"model": {"type": "string"}, "version": {"type": "integer"}}
_HEAD_EXAMPLE = {"model": "cells", "version": 1}
_NOTES: Schema = {**listed({"type": "string"}), "description": "What to know about the answers."}
_ROW_HEAD: dict[str, Schema] = {
    "id": {"type": ["string", "integer", "null"]},
    "no_view": {**FLAG, "description": "Answered without any view: with label frequencies."},
}


def _rows_answer(head: Mapping[str, Schema], row: Mapping[str, Schema]) -> Schema:
    rows = listed(record({**_ROW_HEAD, **row}))
    return record({**_HEAD, **head, "rows": rows, "notes": _NOTES})


_PREDICTED = _rows_answer(
    {},
    {
        "probabilities": by_name({"type": ["number", "null"], "minimum": 0, "maximum": 1}),
        "decisions": by_name({"description": "0 or 1; after a fit on a 1-D y, its values."}),
    },
)
_PREDICTED_EXAMPLE = {
    **_HEAD_EXAMPLE,
    "rows": [
        {
            "id": "p1",
            "no_view": False,
            "probabilities": {"relapse": 0.81, "remission": 0.12},
            "decisions": {"relapse": 1, "remission": 0},
        }
    ],
    "notes": [],
}
_BY_VIEW = by_name(NUMBER_OR_NULL)
_EXPLAINED_LABEL = record(
    {
        "base": {**NUMBER_OR_NULL, "description": "Probability without any view."},
        "probability": NUMBER_OR_NULL,
        "contributions": {**_BY_VIEW, "description": "They add up to probability minus base; "
                          "null for a view that the row lacks."},
        "standard_errors": {"description": "null where the contributions are exact (up to ten "
                            "views).", "anyOf": [_BY_VIEW, {"type": "null"}]},
        "interactions": by_name({"anyOf": [_BY_VIEW, {"type": "null"}]}),
    },
    ("interactions",),
)  # fmt: skip
_EXPLAINED = _rows_answer(
    {"scale": {"enum": ["probability", "log_odds"]}}, {"labels": by_name(_EXPLAINED_LABEL)}
)
_EXPLAINED_EXAMPLE = {
    **_HEAD_EXAMPLE,
    "scale": "probability",
    "rows": [
        {
            "id": "p1",
            "no_view": False,
            "labels": {
                "relapse": {
                    "base": 0.3,
                    "probability": 0.81,
                    "contributions": {"genes": 0.51, "proteins": None},
                    "standard_errors": None,
                }
            },
        }
    ],
    "notes": [],
}
_GUARANTEE: dict[str, Schema] = {
    "risk": {"enum": ["missed positives", "false alarms", "coverage"]},
    "target_level": _LEVEL,
    "confidence_level": _LEVEL,
    "per_label": FLAG,
    "promise": {"type": "string"},
    "assumption": {"type": "string"},
}
_GUARANTEE_EXAMPLE = {
    "risk": "coverage",
    "target_level": 0.9,
    "confidence_level": 0.9,
    "per_label": False,
    "promise": "the probability that a sample has a mistake among its labels is at most 0.1",
    "assumption": "labels of the calibration rows are missing at random; new samples are like "
    "these rows",
}
_DECIDED = _rows_answer(
    _GUARANTEE, {"labels": by_name({"enum": ["certain", "possible", "ruled out"]})}
)
_DECIDED_EXAMPLE = {
    **_HEAD_EXAMPLE,
    **_GUARANTEE_EXAMPLE,
    "rows": [
        {
            "id": "p1",
            "no_view": False,
            "labels": {"relapse": "certain", "remission": "ruled out"},
        }
    ],
    "notes": [],
}
_MODEL = record(
    {
        "name": {"type": "string"},
        "version": {"type": "integer"},
        "method": {"type": "string"},
        "views": listed(
            record(
                {
                    "name": {"type": "string"},
                    "n_columns": COUNT,
                    "named": FLAG,
                    "columns": listed({"type": "string"}),
                }
            )
        ),
        "labels": listed(
            record(
                {
                    "name": {"type": "string"},
                    "frequency": NUMBER_OR_NULL,
                    "threshold": {"type": "number"},
                }
            )
        ),
        "nan": {"enum": ["mean", "error", "missing_view"]},
        "max_rows": COUNT,
        "max_body": COUNT,
        "label_sets": {"anyOf": [record(_GUARANTEE), {"type": "null"}]},
        "problem": TEXT_OR_NULL,
    }
)
_MODEL_EXAMPLE = {
    "name": "cells",
    "version": 1,
    "method": "SCSD",
    "views": [{"name": "genes", "n_columns": 2, "named": True, "columns": ["TP53", "MYC"]}],
    "labels": [{"name": "relapse", "frequency": 0.3, "threshold": 0.41}],
    "nan": "mean",
    "max_rows": 10000,
    "max_body": 16777216,
    "label_sets": _GUARANTEE_EXAMPLE,
    "problem": None,
}
_READY = record(
    {
        "status": {"type": "string"},
        "models": by_name(record({"version": {"type": "integer"}, "problem": TEXT_OR_NULL})),
    }
)
_ERROR = record({"error": record({"message": {"type": "string"}, "field": TEXT_OR_NULL})})
_ERROR_EXAMPLE = {
    "error": {
        "message": "expected a number or null, found text",
        "field": "rows[0].views.genes.TP53",
    }
}

# ---------------------------------------------------------------------- operations

WORDS = {
    400: "The request is not right; `field` says where.",
    401: "The token is missing or wrong.",
    404: "There is no such model, or nothing of this kind for it.",
    408: "The body did not arrive in time.",
    413: "The body is too large, has too many rows, or asks for too much work.",
    415: "This kind of body is not read here.",
    503: "Too many requests wait; try again after Retry-After seconds.",
}


def content(schema: Schema, example: Any) -> Schema:
    """A JSON body."""
    return {"application/json": {"schema": schema, "example": example}}


def answers(words: str, answer: Schema, example: Any) -> Schema:
    """`responses` of an operation without a body."""
    refused = {"description": WORDS[401], "content": content(_ERROR, _ERROR_EXAMPLE)}
    return {"200": {"description": words, "content": content(answer, example)}, "401": refused}


def _operation(words: str, body: Schema, example: Any, answer: Schema, answered: Any) -> Schema:
    errors = {
        str(code): {"description": text, "content": content(_ERROR, _ERROR_EXAMPLE)}
        for code, text in WORDS.items()
    }
    return {
        "parameters": [
            {"name": "model", "in": "query", "required": False, "schema": {"type": "string"}}
        ],
        "requestBody": {"required": True, "content": content(body, example)},
        "responses": errors | {"200": {"description": words, "content": content(answer, answered)}},
    }


PREDICT = _operation("Answers by row.", _ROWS, _EXAMPLE, _PREDICTED, _PREDICTED_EXAMPLE)
EXPLAIN = _operation(
    "Contributions by row, label and view.",
    _EXPLAIN_ROWS,
    {**_EXAMPLE, "labels": ["relapse"]},
    _EXPLAINED,
    _EXPLAINED_EXAMPLE,
)
_TABLE: Schema = {
    "description": "A column VIEW:COLUMN per value, and `id` if rows have ids. The answer has "
    "`id`, `no_view`, a column per label, and `decision:LABEL`.",
    "type": "string",
    "format": "binary",
}
for _kind in (PARQUET, ARROW):
    PREDICT["requestBody"]["content"][_kind] = {"schema": _TABLE}
    PREDICT["responses"]["200"]["content"][_kind] = {"schema": _TABLE}
PREDICT["responses"]["406"] = {
    "description": "No such kind of answer.",
    "content": content(_ERROR, _ERROR_EXAMPLE),
}
DECIDE = _operation("Label sets by row.", _ROWS, _EXAMPLE, _DECIDED, _DECIDED_EXAMPLE)
MODELS: Schema = {
    "responses": answers(
        "The models.", record({"models": listed(_MODEL)}), {"models": [_MODEL_EXAMPLE]}
    )
}
PAGE: Schema = {
    "responses": {
        "200": {
            "description": "A page for people.",
            "content": {"text/html": {"schema": {"type": "string"}}},
        }
    }
}
EXAMPLE: Schema = {
    "parameters": PREDICT["parameters"],
    "responses": answers("Rows that are made up.", record({"rows": listed(_ROW)}), _EXAMPLE)
    | {code: PREDICT["responses"][code] for code in ("400", "404")},
}
HEALTH: Schema = {
    "responses": answers("It answers.", record({"status": {"const": "ok"}}), {"status": "ok"})
}
READY: Schema = {
    "responses": answers(
        "Models are loaded.",
        _READY,
        {"status": "ready", "models": {"cells": {"version": 1, "problem": None}}},
    )
}
METRICS: Schema = {
    "responses": {
        "200": {
            "description": "The text format of Prometheus.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        "401": answers("", {}, None)["401"],
    }
}
