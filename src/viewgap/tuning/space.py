"""The search space of one study: declared ranges around the defaults that the data has."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import clone

from viewgap.data.labels import Labels
from viewgap.errors import SettingError, first_few, parameter
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.profiled import DataSize, ProfiledClassifier
from viewgap.search import IntegerRange, Options, Range, SearchRange, search_ranges

_FEW = 200  # combinations of options that are tried one by one

Space = dict[str, Range | Options]


def make_space(
    model: MultiViewClassifier,
    labels: Labels,
    fixed: Mapping[str, Any],
    search: Sequence[str] | None,
) -> tuple[Space, dict[str, Any]]:
    """Return the range of every setting that is searched, and the defaults of all of them.

    `fixed` are the user's own parameters, which stay; `search` names the settings to try. One whose
    range does not go with the rest (as view dropout with the paper's statistics) is left out.
    """
    declared = search_ranges(type(model))
    _check_names(model, declared, fixed, search)
    source: Any = model
    if isinstance(model, ProfiledClassifier):
        size = DataSize(len(labels), labels.n_observed)
        source = model._resolve(labels.n_labels, size)
    defaults = {name: getattr(source, name) for name in declared}
    space: Space = {}
    for name in declared if search is None else search:
        found = None if name in fixed else declared[name].including(defaults[name])
        if isinstance(found, Range | Options) and _is_accepted(model, name, found):
            space[name] = found
    if not space:
        raise SettingError(
            f"nothing is left to tune: {first_few(declared if search is None else search)} are "
            f"given by {parameter('params')}, switched off by the profile, or do not go with it"
        )
    return space, {name: defaults[name] for name in space}


def _check_names(
    model: MultiViewClassifier,
    declared: Mapping[str, SearchRange],
    fixed: Mapping[str, Any],
    search: Sequence[str] | None,
) -> None:
    name = type(model).__name__
    if not declared:
        from viewgap import methods

        others = [own for own in methods.names() if search_ranges(methods.get(own))]
        raise SettingError(
            f"{name} declares no search range for any of its settings, so there is nothing to "
            f"tune; methods that do: {', '.join(others)}"
        )
    for wanted in search or ():
        if wanted not in declared:
            raise SettingError(
                f"{parameter('search')}: {name} has no search range for {wanted!r}; it has ranges "
                f"for: {', '.join(declared)}"
            )
        if wanted in fixed:
            raise SettingError(
                f"{wanted!r} is both given a value ({parameter('params')}) and to be searched "
                f"({parameter('search')}); leave one of them out"
            )


def _is_accepted(model: MultiViewClassifier, name: str, found: Range | Options) -> bool:
    """Whether the ends of a range go with the other settings."""
    ends = found.values if isinstance(found, Options) else (found.low, found.high)
    for value in ends:
        try:
            clone(model).set_params(**{name: value})._check_parameters()
        except SettingError:
            return False
    return True


# ---------------------------------------------------------------------- as Optuna has it


def distributions(space: Space) -> dict[str, Any]:
    """The space as Optuna's distributions; of options, the choices are texts in JSON."""
    from optuna import distributions as kinds

    found: dict[str, Any] = {}
    for name, own in space.items():
        if isinstance(own, Options):
            found[name] = kinds.CategoricalDistribution([json.dumps(v) for v in own.values])
        elif isinstance(own, IntegerRange):
            found[name] = kinds.IntDistribution(own.low, own.high, log=own.log)
        else:
            found[name] = kinds.FloatDistribution(own.low, own.high, log=own.log)
    return found


def combinations(space: Space) -> list[dict[str, Any]] | None:
    """All settings of a small space, as Optuna keeps them; None for one that is not small."""
    if not all(isinstance(own, Options) for own in space.values()):
        return None
    choices = [kind.choices for kind in distributions(space).values()]
    if math.prod(map(len, choices)) > _FEW:
        return None
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*choices)]


def to_optuna(space: Space, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of settings as Optuna keeps them."""
    return {
        name: json.dumps(values[name]) if isinstance(own, Options) else values[name]
        for name, own in space.items()
    }


def from_optuna(space: Space, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of settings as a method takes them, numbers with few digits."""
    found = {}
    for name, own in space.items():
        value = values[name]
        found[name] = json.loads(value) if isinstance(own, Options) else own.plain(value)
    return found
