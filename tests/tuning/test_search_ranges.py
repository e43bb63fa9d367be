"""Search ranges: declared beside settings, around the default, within its constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap import methods
from viewgap.data.labels import Labels
from viewgap.errors import SettingError
from viewgap.search import Around, IntegerRange, Options, Range, search_ranges
from viewgap.tuning.space import make_space

TUNED = [name for name in methods.names() if search_ranges(methods.get(name))]
LABELS = Labels(np.eye(30, 4), np.ones((30, 4), dtype=bool), ("a", "b", "c", "d"))


@pytest.mark.parametrize("name", TUNED)
def test_defaults_lie_inside_and_ends_are_accepted(name: str) -> None:
    kind = methods.get(name)
    space, defaults = make_space(kind(), LABELS, {}, None)
    # Only what the profile switches off may be left out.
    assert set(search_ranges(kind)) - set(space) <= {"weight_decay", "alpha"}
    for setting, own in space.items():
        default = defaults[setting]
        inside = default in own.values if isinstance(own, Options) else None
        assert inside or own.low <= default <= own.high  # type: ignore[union-attr]


def test_ranges_include_the_default() -> None:
    assert Range(0, 0.5).including(0.7) == Range(0, 0.7)
    assert Range(0.1, 1, log=True).including(0.0) is None  # a part that is switched off stays off
    assert Range(0.1, 1).including("sqrt") is None
    assert IntegerRange(1, 5).including(9) == IntegerRange(1, 9)
    assert IntegerRange(1, 5).including(0.1) is None  # a share, not a number of rows
    assert Around(10).including(0.2) == Range(0.02, 2.0, log=True)
    assert Around(10).including(0) is None
    assert Options(1, 2).including(3).values == (3, 1, 2)


def test_settings_that_do_not_go_with_the_profile_are_left_out() -> None:
    scsd = methods.get("scsd")
    assert "view_dropout" in make_space(scsd(), LABELS, {}, None)[0]
    assert "view_dropout" not in make_space(scsd(profile="paper"), LABELS, {}, None)[0]


@pytest.mark.parametrize(
    ("name", "fixed", "search", "text"),
    [
        ("label_frequency", {}, None, "declares no search range.*scsd"),
        ("extra_trees", {}, ["n_parts"], "no search range for 'n_parts'.*max_features"),
        ("extra_trees", {"max_features": 0.5}, ["max_features"], "leave one of them out"),
        ("imputed_logistic", {"C": 1.0}, None, "nothing is left to tune"),
    ],
)
def test_refused(name: str, fixed: dict[str, Any], search: list[str] | None, text: str) -> None:
    with pytest.raises(SettingError, match=text):
        make_space(methods.get(name)(**fixed), LABELS, fixed, search)
