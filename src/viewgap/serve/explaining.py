"""`/explain`: what every view of a row contributes to the probability of every label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, first_few
from viewgap.explanation.contributions import (
    MOST_EXACT_VIEWS,
    SCALES,
    Contributions,
    ExplainRequest,
    contributions,
)
from viewgap.explanation.subsets import check_model
from viewgap.serve import answers, schemas
from viewgap.serve.models import LoadedModel
from viewgap.serve.rows import Rows, kind_of
from viewgap.serve.service import JsonRequest, Part, Route, maybe_in_thread
from viewgap.serve.settings import RequestError, ServiceSettings
from viewgap.serve.worker import Job

if TYPE_CHECKING:
    from fastapi import Request

_KEYS = {"labels", "scale", "interactions"}
_MOST_NUMBERS = 2**20  # of one answer: about 25 MB of JSON


@dataclass(frozen=True, eq=False)
class _Asked:
    """Rows to explain, and how."""

    rows: Rows
    labels: list[int]
    request: ExplainRequest


class Explaining(Part):
    """Answers with contributions of views."""

    def routes(self) -> list[Route]:
        """The addresses."""
        return [Route("POST", "/explain", self.explain, schemas.EXPLAIN)]

    async def explain(self, request: Request) -> Any:
        """Contributions of every view to every label, as Shapley values."""
        asked = await self._service.read_json(request, _KEYS)
        loaded = asked.loaded
        wanted = _checked(asked, self._service.settings)

        def work(loaded: LoadedModel, views: ViewSet) -> Contributions:
            return contributions(loaded.fitted, views, wanted.labels, wanted.request)

        job = Job(loaded, asked.rows.views, work)
        found = await self._service.answer(job, self._service.explainers)
        size = found.contribution.nbytes
        return await maybe_in_thread(size, lambda: _answer(loaded, wanted, found))


# ---------------------------------------------------------------------- what is asked for


def _checked(asked: JsonRequest, settings: ServiceSettings) -> _Asked:
    value, loaded, rows = asked.value, asked.loaded, asked.rows
    scale, interactions = value.get("scale", SCALES[0]), value.get("interactions", False)
    if not isinstance(scale, str) or scale not in SCALES:
        raise RequestError(f"expected one of {', '.join(SCALES)}", "scale")
    if not isinstance(interactions, bool):
        raise RequestError(f"expected true or false, found {kind_of(interactions)}", "interactions")
    try:
        check_model(loaded.fitted)
    except SettingError as error:
        raise RequestError(str(error), "model") from None
    request = ExplainRequest.check(scale, interactions, n_permutations=128, seed=0)
    wanted = _Asked(rows, _label_positions(value.get("labels"), loaded), request)
    _check_work(wanted, settings)
    return wanted


def _label_positions(labels: Any, loaded: LoadedModel) -> list[int]:
    names = [str(name) for name in loaded.fitted.label_names_]
    if labels is None:
        return list(range(len(names)))
    if not isinstance(labels, list) or not labels:
        raise RequestError("expected a list of label names", "labels")
    positions = {name: position for position, name in enumerate(names)}
    found: list[int] = []
    for i, label in enumerate(labels):
        if not isinstance(label, str) or label not in positions:
            shown = repr(label[:60]) if isinstance(label, str) else kind_of(label)
            words = f"expected a label of the model ({first_few(names, 20)}), found {shown}"
            raise RequestError(words, f"labels[{i}]")
        if positions[label] in found:
            raise RequestError(f"the label {label[:60]!r} is named twice", f"labels[{i}]")
        found.append(positions[label])
    return found


def _check_work(wanted: _Asked, settings: ServiceSettings) -> None:
    """Refuse what takes too long or answers too much, before any of it is done."""
    views = wanted.rows.views
    n_views = views.observed.sum(axis=1)
    if wanted.request.interactions and (n_views > MOST_EXACT_VIEWS).any():
        row = int(np.argmax(n_views > MOST_EXACT_VIEWS))
        words = f"interactions are for rows with up to {MOST_EXACT_VIEWS} views, found "
        raise RequestError(f"{words}{n_views[row]}", f"rows[{row}].views")
    n_answers = int(wanted.request.n_answers(views).sum())
    if n_answers > settings.max_predictions:
        raise RequestError(
            f"these rows need {n_answers:,} predictions (2**k for a row with k views), at most "
            f"{settings.max_predictions:,} in one request; send fewer rows",
            "rows",
            413,
        )
    width = views.n_views**2 if wanted.request.interactions else views.n_views
    n_numbers = len(views) * len(wanted.labels) * width
    if n_numbers > _MOST_NUMBERS:
        raise RequestError(
            f"the answer would have {n_numbers:,} numbers, at most {_MOST_NUMBERS:,}; send fewer "
            "rows, or name fewer labels",
            "rows",
            413,
        )


# ---------------------------------------------------------------------- the answer


def _answer(loaded: LoadedModel, wanted: _Asked, found: Contributions) -> bytes:
    names = [str(loaded.fitted.label_names_[position]) for position in wanted.labels]
    base = answers.numbers(loaded.fitted.label_frequency_[wanted.labels].tolist())
    views = wanted.rows.views

    def line(i: int) -> dict[str, Any]:
        probabilities = answers.numbers(found.probability[i].tolist())
        parts = (
            {"base": base[j], "probability": probabilities[j], **_parts(views, wanted, found, i, j)}
            for j in range(len(names))
        )
        return {
            "id": wanted.rows.ids[i],
            "no_view": not views.observed[i].any(),
            "labels": dict(zip(names, parts, strict=True)),
        }

    head = answers.head(loaded) | {"scale": wanted.request.scale}
    return answers.with_rows(head, map(line, range(len(views))), answers.notes(loaded, wanted.rows))


def _parts(
    views: ViewSet, wanted: _Asked, found: Contributions, i: int, j: int
) -> Mapping[str, Any]:
    """The contributions to one label: null for a view that the row lacks."""
    observed = views.observed[i]
    values = found.contribution[i, j]
    if not wanted.request.interactions:
        error = found.standard_error[i, j]
        exact = observed.sum() <= MOST_EXACT_VIEWS
        return {
            "contributions": _by_view(views, values, observed),
            "standard_errors": None if exact else _by_view(views, error, observed),
        }
    pairs = {
        view: _by_view(views, row, observed) if own else None
        for view, row, own in zip(views.names, values, observed, strict=True)
    }
    return {
        "contributions": _by_view(views, values.sum(axis=1), observed),
        "standard_errors": None,
        "interactions": pairs,
    }


def _by_view(views: ViewSet, values: Any, observed: Any) -> dict[str, float | None]:
    kept = np.where(observed, values, np.nan)
    return dict(zip(views.names, answers.numbers(kept.tolist()), strict=True))
