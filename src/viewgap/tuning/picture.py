"""A picture of a study: scores over the trials, and beside every setting."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from viewgap.bench.show.style import (
    BLUE,
    GREY,
    NAMES,
    VERMILLION,
    is_number,
    log_axis,
    matplotlib_ready,
    new_figure,
    rendered,
)
from viewgap.metrics import get_metric
from viewgap.search import Options, Range

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from viewgap.tuning.result import Tuning

_COLUMNS = 4
_LONG = 7  # letters of an option that have room beside others
_NARROW = 20  # largest ratio of an axis that has room for more ticks than powers of ten


def draw_study(result: Tuning) -> bytes:
    """The picture as SVG. Needs matplotlib."""
    with matplotlib_ready():
        lines = -(-len(result.space) // _COLUMNS)
        figure = new_figure(10.5, 2.9 + 2.4 * lines)
        grid = figure.add_gridspec(1 + lines, _COLUMNS)
        complete = result.trials[result.trials["state"] == "complete"]
        _draw_course(figure.add_subplot(grid[0, :]), result, complete)
        for place, name in enumerate(result.space):
            axes = figure.add_subplot(grid[1 + place // _COLUMNS, place % _COLUMNS])
            _draw_setting(axes, result, complete, name)
        return rendered(figure, ["svg"])["svg"]


def _draw_course(axes: Axes, result: Tuning, complete: pd.DataFrame) -> None:
    """Scores in the order of the trials, the best so far, and the default."""
    greater = get_metric(result.metric).greater_is_better
    best = complete["score"].cummax() if greater else complete["score"].cummin()
    axes.plot(complete["trial"], complete["score"], "o", color=BLUE, label="trial")
    axes.step(complete["trial"], best, where="post", color=BLUE, label="best so far")
    axes.axhline(result.default_score, color=GREY, linestyle="--", label="default")
    pruned = result.trials.loc[result.trials["state"] == "pruned", "trial"]
    if len(pruned):
        where = axes.get_xaxis_transform()
        axes.plot(pruned, [0.03] * len(pruned), "x", color=GREY, transform=where, label="given up")
    _mark_best(axes, result.best_trial, result.best_score)
    axes.set_xlabel("trial")
    axes.set_ylabel(f"{result.metric}, out of fold")
    axes.set_title(result.summary, fontsize=10)
    axes.grid(axis="y")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_setting(axes: Axes, result: Tuning, complete: pd.DataFrame, name: str) -> None:
    own = result.space[name]
    known = complete[complete[name].notna()]
    values: list[Any] = known[name].tolist()
    if isinstance(own, Options):
        options = [json.dumps(v) if isinstance(v, tuple) else v for v in own.values]
        texts = [str(option) for option in _ordered(options)]
        turned = 90 if max(map(len, texts)) > _LONG else 0  # else neighbours would overlap
        axes.set_xticks(range(len(texts)), [_short(t) for t in texts], fontsize=8, rotation=turned)
        values = [texts.index(str(value)) for value in values]
        axes.set_xlim(-0.5, len(texts) - 0.5)
    elif own.log:
        narrow = own.high / own.low < _NARROW
        log_axis(axes, own.low, own.high if narrow else _NARROW**3 * own.low)
        axes.set_xlim(own.low / 1.1, own.high * 1.1)
    axes.plot(values, known["score"], "o", color=BLUE, alpha=0.8)
    places = dict(zip(known["trial"], values, strict=True))
    if result.best_trial in places:
        _mark_best(axes, places[result.best_trial], result.best_score)
    default = known.index[known["default"]]
    if len(default):
        trial = known.loc[default[0], "trial"]
        axes.plot(places[trial], known.loc[default[0], "score"], "s", color=GREY)
    if isinstance(own, Range):
        axes.tick_params(axis="x", labelsize=8)
    axes.set_title(NAMES.get(name, name), fontsize=10)
    axes.grid()


def _short(text: str) -> str:
    """An option as it stands at an axis: a list of numbers without brackets and final .0."""
    return re.sub(r"\.0\b", "", text.strip("[]"))


def _ordered(options: list[Any]) -> list[Any]:
    """Numbers by size; others as declared."""
    return sorted(options) if all(map(is_number, options)) else options


def _mark_best(axes: Axes, x: float, y: float) -> None:
    axes.plot(x, y, "D", color=VERMILLION, markersize=8)
