"""Methods that relate every label to every other keep matrices of labels x labels: how many fit."""

from __future__ import annotations

from viewgap.errors import SettingError

_MOST_BYTES = 2 << 30
WITHOUT_THEM = "use a method without them, such as MTD or late-fusion ridge"


def check_label_matrices(
    method: str, count: float, n_labels: int, remedy: str = WITHOUT_THEM
) -> None:
    """Refuse, before anything is made, what would not fit into memory.

    `count`: how many (c, c) matrices of four bytes a number the method keeps at a time, about.
    """
    needed = 4 * n_labels**2 * count
    if needed > _MOST_BYTES:
        raise SettingError(
            f"{method} compares labels with labels, which takes {needed / 2**30:.1f} GiB for "
            f"{n_labels} labels (limit {_MOST_BYTES / 2**30:.0f} GiB); {remedy}"
        )
