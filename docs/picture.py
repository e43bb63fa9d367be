"""Draws the picture of the README: samples with missing views, and what SCSD predicts for them.

python docs/picture.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import viewgap

SHOWN = 12
BLUE, GREY, INK = "#2a6f97", "#e3e6ea", "#2b2f36"


def main(target: Path) -> None:
    data = viewgap.load_dataset("multidigits")
    X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.5, label_rate=0.5, seed=0)
    train, test = slice(0, 3500), slice(3500, 3500 + SHOWN)
    model = viewgap.SCSD(random_state=0, max_epochs=45).fit(X[train], Y[train])
    draw(
        data.extras["canvas"][test],
        np.array(X[test].observed),
        X.names,
        model.predict_proba(X[test]),
        np.asarray(data.labels[test]),
        target,
    )


def draw(canvas, observed, view_names, probabilities, truth, target: Path) -> None:
    plt.rcParams.update({"svg.hashsalt": "viewgap", "font.size": 9, "svg.fonttype": "none"})
    plt.rcParams.update({"text.color": INK, "xtick.color": INK, "axes.titlecolor": INK})
    figure, (left, middle, right) = plt.subplots(
        1,
        3,
        figsize=(9.2, 5.6),
        layout="constrained",
        width_ratios=[1.0, 6.0, 10.0],
        facecolor="white",
    )
    for row, image in enumerate(canvas):
        left.imshow(image, extent=(0.05, 0.95, row + 0.95, row + 0.05), cmap="gray_r", zorder=1)
    boxes(middle, np.where(observed, 1.0, np.nan))
    boxes(right, probabilities)
    for row, column in zip(*np.nonzero(truth), strict=True):
        frame = (column + 0.06, row + 0.06)
        right.add_patch(plt.Rectangle(frame, 0.88, 0.88, fill=False, edgecolor="#d1495b", lw=1.8))
    finish(left, 1, ["sample"], "")
    finish(middle, len(view_names), view_names, "views (grey: missing)", rotation=35)
    labels = [str(label) for label in range(truth.shape[1])]
    finish(right, len(labels), labels, "predicted probability (red frame: true label)")
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None, dpi=110)
    print(f"{target} written")


def boxes(axes, values) -> None:
    """One box per entry: grey without a value, blue the darker the higher it is."""
    shade = matplotlib.colors.LinearSegmentedColormap.from_list("shade", ["#ffffff", BLUE])
    for (row, column), value in np.ndenumerate(values):
        colour = GREY if np.isnan(value) else shade(value)
        box = plt.Rectangle((column + 0.06, row + 0.06), 0.88, 0.88, facecolor=colour)
        axes.add_patch(box)
        if values.shape[1] == 10 and value >= 0.1:
            text = f"{value:.1f}".lstrip("0")
            ink = "white" if value > 0.55 else INK
            axes.text(column + 0.5, row + 0.54, text, ha="center", va="center", color=ink, size=7)


def finish(axes, width: int, names, title: str, rotation: int = 0) -> None:
    axes.set(xlim=(0, width), ylim=(SHOWN, 0), aspect="equal", yticks=[])
    axes.text(width / 2, -2.1, title, fontsize=10, ha="center", va="bottom")
    side = "left" if rotation else "center"
    axes.set_xticks(np.arange(width) + 0.5, names, rotation=rotation, ha=side)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    default = Path(__file__).parent / "_static" / "picture.svg"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
