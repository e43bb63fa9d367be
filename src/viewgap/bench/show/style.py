"""What all figures share: matplotlib when it is there, one look, and files that come out equal.

Colours are those of Okabe and Ito, which people who see few colours tell apart; lines also differ
in marker and dash. Text is never read as a formula, and the same figure gives the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from viewgap.bench.analyse.summary import FOOTNOTE, RECONSTRUCTION, Row, flat_settings
from viewgap.errors import RunError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, BLACK, YELLOW = "#56B4E9", "#CC79A7", "#000000", "#F0E442"
PALETTE = (BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, BLACK)  # yellow is too pale for a line
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)))
GREY = "#6b6b6b"
RESOLUTION = 160
FORMS = ("svg", "png")

# Words for the settings that experiments vary; others are called by their own name.
NAMES = {
    "alpha": "α (weight of reconstruction)",
    "distill_weight": "λ (weight of the teacher)",
    "temperature": "τ (temperature of the fusion)",
    "codebook_size": "codebook size k",
    "code_dim": "code dimension d_c",
    "view_rate": "missing views",
    "label_rate": "missing labels",
    "test_view_rate": "missing views at test",
    "train_share": "training share",
}
SHARES = ("view_rate", "label_rate", "test_view_rate", "train_share")

_LOOK: dict[Any, Any] = {
    "svg.hashsalt": "viewgap",
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and read aloud
    "text.parse_math": False,
    "text.usetex": False,
    "axes.unicode_minus": True,
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "figure.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "errorbar.capsize": 2.5,
}


@contextmanager
def matplotlib_ready() -> Iterator[None]:
    """The look of the figures, whatever the user's own settings of matplotlib are."""
    try:
        import matplotlib
    except ImportError:
        raise RunError(
            "figures need the package matplotlib: pip install viewgap[figures]"
        ) from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, laid out so that nothing overlaps."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def rendered(figure: Figure, forms: Sequence[str] = FORMS) -> dict[str, bytes]:
    """The figure as {"svg": bytes, "png": bytes}, without date or version."""
    options: dict[str, dict[str, Any]] = {
        "svg": {"metadata": {"Date": None, "Creator": "viewgap"}},
        "png": {"metadata": {"Software": None}, "dpi": RESOLUTION},
    }
    found = {}
    for form in forms:
        stream = io.BytesIO()
        figure.savefig(stream, format=form, facecolor="white", **options[form])
        found[form] = stream.getvalue()
    return found


def panel_grid(figure: Figure, n_panels: int, columns: int, **share: Any) -> NDArray[Any]:
    """Axes in `columns`, shape (lines, columns); those beyond the last panel are hidden."""
    lines = math.ceil(n_panels / columns)
    grid: NDArray[Any] = figure.subplots(lines, columns, squeeze=False, **share)
    for axes in grid.flat[n_panels:]:
        axes.set_visible(False)
    return grid


def style_of(place: int) -> dict[str, Any]:
    """The look of the line number `place`; repeats after 7 colours x 9 markers."""
    return {
        "color": PALETTE[place % len(PALETTE)],
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": DASHES[place // len(PALETTE) % len(DASHES)],
    }


def setting_of(row: Row, name: str) -> Any:
    """A setting of a row; the missing rate at test is that of training unless it is given."""
    settings = flat_settings(row.settings)
    if name == "test_view_rate":
        return settings.get(name, settings.get("view_rate"))
    return settings.get(name)


def is_number(value: Any) -> bool:
    """Whether a setting can be a place on an axis."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def setting_text(name: str, value: float) -> str:
    """A value of a setting as an axis shows it: shares in percent."""
    return f"{100 * value:g} %" if name in SHARES else f"{value:g}"


def spread_of(rows: Sequence[Row], metric: str) -> list[float]:
    """Lengths of the error bars: the deviation over folds, nothing for a single fold."""
    return [row.spread.get(metric, 0.0) for row in rows]


def folds_text(rows: Sequence[Row]) -> str:
    """What the error bars are, in words."""
    counts = sorted({row.folds for row in rows})
    if counts == [1]:
        return "one fold"
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"mean ± standard deviation over {span} folds"


def add_footnote(figure: Figure, names: Iterable[str]) -> None:
    """Say what the dagger means where one is shown."""
    if any(RECONSTRUCTION in name for name in names):
        figure.supxlabel(FOOTNOTE, x=0.01, ha="left", fontsize=8, color=GREY)


def log_axis(axes: Axes, low: float, high: float) -> None:
    """An x-axis of factors with plain numbers: powers of ten, and 2 and 5 where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    wide = high / low > 1000
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
