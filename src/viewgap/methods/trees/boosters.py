"""Boosters of LightGBM, fitted one by one and kept as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import RunError
from viewgap.methods.trees.arrays import Nodes

_LEAF = -1


class Booster(NamedTuple):
    """The trees of one booster and the values of their nodes, (nodes,) each; inner nodes have 0."""

    trees: list[Nodes]
    values: list[NDArray[np.float32]]

    def filled(self, n_trees: int) -> Booster:
        """Return it with `n_trees` trees: those that are lacking say nothing."""
        lacking = n_trees - len(self.trees)
        return Booster(
            self.trees + lacking * [_leaf()],
            self.values + lacking * [np.zeros(1, dtype=np.float32)],
        )


def constant(log_odds: float) -> Booster:
    """Return a booster that says the same of every sample."""
    return Booster([_leaf()], [np.array([log_odds], dtype=np.float32)])


def import_lightgbm() -> Any:
    """Return the module; RunError that says what to do where it cannot be loaded."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        raise RunError(
            f"LightGBM, which fits gradient boosting, cannot be loaded ({error}); install it by "
            "'pip install lightgbm' and, where the message names libgomp, OpenMP by "
            "'apt install libgomp1' (macOS: 'brew install libomp'), or use ExtraTrees, which does "
            "not need it. Saved models predict without it"
        ) from error
    return lightgbm


class BinnedView:
    """The rows of one view, binned once for all boosters.

    `inputs` (n, d) have no missing values; `params` are LightGBM's.
    """

    def __init__(self, inputs: NDArray[np.float32], params: dict[str, Any]) -> None:
        self._lightgbm = import_lightgbm()
        # A constant column, such as a term that no row has, splits nothing.
        self._columns = np.flatnonzero((inputs != inputs[:1]).any(axis=0))
        self._params = params
        self._data: Any = None
        if self._columns.size:
            self._data = self._lightgbm.Dataset(
                inputs[:, self._columns], label=np.zeros(len(inputs)), params=params
            ).construct()

    def fit(
        self, rows: NDArray[np.intp], labels: NDArray[np.uint8], seed: int, n_trees: int
    ) -> Booster:
        """Fit a booster to the labels (r,), both values, of some rows (r,) in their order."""
        if self._data is None:
            share = labels.mean()
            return constant(float(np.log(share / (1 - share))))
        return read(self.train(rows, labels, seed, n_trees).model_to_string(), self._columns)

    def train(
        self, rows: NDArray[np.intp], labels: NDArray[np.uint8], seed: int, n_trees: int
    ) -> Any:
        """Return LightGBM's own booster; its columns are those of the view that vary."""
        data = self._data.subset(rows.astype(np.int32)).construct()
        data.set_label(labels.astype(np.float32))
        booster = self._lightgbm.Booster({**self._params, "seed": seed}, data)
        for _ in range(n_trees):
            if booster.update():  # nothing is left to split
                break
        return booster


def read(text: str, columns: NDArray[np.intp]) -> Booster:
    """Read a model that LightGBM has just written, whose columns are these of the view."""
    trees, values = [], []
    for block in text.partition("end of trees")[0].split("\nTree=")[1:]:
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        tree, value = _read_tree(fields, columns)
        trees.append(tree)
        values.append(value)
    return Booster(trees, values)


def _read_tree(
    fields: dict[str, str], columns: NDArray[np.intp]
) -> tuple[Nodes, NDArray[np.float32]]:
    """Inner nodes first, then the leaves, which LightGBM numbers -1, -2, ..."""
    leaves = np.array(fields["leaf_value"].split(), dtype=np.float64)
    inner = len(leaves) - 1
    if inner == 0:
        return _leaf(), leaves.astype(np.float32)
    if set(fields["decision_type"].split()) - {"0", "2"}:
        raise RuntimeError("expected splits of numbers without missing values")  # see the params
    left, right = (
        np.array(fields[f"{side}_child"].split(), dtype=np.int32) for side in ("left", "right")
    )
    ends = np.full(len(leaves), _LEAF, dtype=np.int32)
    nodes = Nodes(
        np.append(np.where(left < 0, inner + ~left, left), ends),
        np.append(np.where(right < 0, inner + ~right, right), ends),
        np.append(columns[np.array(fields["split_feature"].split(), dtype=np.intp)], 0 * ends),
        np.append(np.array(fields["threshold"].split(), dtype=np.float64), 0.0 * ends),
    )
    return nodes, np.append(np.zeros(inner), leaves).astype(np.float32)


def _leaf() -> Nodes:
    end = np.full(1, _LEAF, dtype=np.int32)
    return Nodes(end, end, np.zeros(1, dtype=np.int32), np.zeros(1))


def joined(boosters: Sequence[Booster]) -> Booster:
    """Return the trees of several boosters one after the other."""
    return Booster(
        [tree for booster in boosters for tree in booster.trees],
        [value for booster in boosters for value in booster.values],
    )
