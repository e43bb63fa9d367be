"""Decision trees as plain arrays: made from those of other libraries, walked without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.state import State

_LEAF = -1
_WALKS = 32_768  # samples x trees at a time: their numbers stay in the processor's cache


class Nodes(NamedTuple):
    """The nodes of one tree, the root first. Shape: (nodes,) each; -1 on both sides of a leaf."""

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]

    @classmethod
    def of_scikit_learn(cls, tree: Any) -> Self:
        """Return copies of the nodes of a `tree_`, which takes several times their memory."""
        children = (tree.children_left.astype(np.int32), tree.children_right.astype(np.int32))
        return cls(*children, tree.feature.astype(np.int32), tree.threshold.copy())


@dataclass(frozen=True, eq=False)
class Splits:
    """Several forests of T trees each, all nodes in one row of arrays.

    `roots` (forests, T) are node numbers. A node sends a sample to the first of its `children`
    (nodes, 2) where `x[feature] <= threshold`, else to the second; both numbers are larger than its
    own, so that every walk ends. A leaf sends samples to itself. Samples are float32, and so are
    thresholds: rounded downwards, they send every such sample where the more precise number would.
    """

    roots: NDArray[np.int64]
    children: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]

    @classmethod
    def from_trees(cls, trees: Sequence[Nodes], n_trees: int) -> Self:
        """Join trees, `n_trees` for every forest; without any, an empty set of forests."""
        sizes = [len(tree.left) for tree in trees]
        starts = np.cumsum([0, *sizes])[: len(trees)].astype(np.int64)
        left, right = (
            _shifted([getattr(tree, side) for tree in trees], starts) for side in ("left", "right")
        )
        return cls(
            starts.reshape(-1, n_trees),
            _children(left, right),
            _joined([np.maximum(tree.feature, 0) for tree in trees], np.int32),
            _rounded_down(_joined([tree.threshold for tree in trees], np.float64)),
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.children)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Which nodes are leaves, (nodes,)."""
        return np.equal(self.children[:, 0], np.arange(self.n_nodes))

    def leaves(self, forest: int, inputs: NDArray[np.float32]) -> NDArray[np.int32]:
        """Numbers of the leaves that the rows of `inputs` (n, d) fall into, (n, T)."""
        roots = self.roots[forest].astype(np.int32)
        result = np.empty((len(inputs), len(roots)), dtype=np.int32)
        size = max(1, _WALKS // len(roots))
        for start in range(0, len(inputs), size):
            result[start : start + size] = self._walk(roots, inputs[start : start + size])
        return result

    def _walk(self, roots: NDArray[np.int32], inputs: NDArray[np.float32]) -> NDArray[np.int32]:
        # Samples that have arrived walk on the spot: faster than to leave them out of the others.
        values, children = inputs.ravel(), self.children.ravel()
        row = np.repeat(np.arange(len(inputs)) * inputs.shape[1], len(roots))
        here = np.tile(roots, len(inputs))
        while True:
            value = values.take(row + self.feature.take(here))
            goes_right = ~(value <= self.threshold.take(here))
            following = children.take(2 * here.astype(np.int64) + goes_right)
            if np.array_equal(following, here):
                return here.reshape(len(inputs), len(roots))
            here = following

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays, for a model file; -1 on both sides of a leaf."""
        left, right = np.where(self.is_leaf, _LEAF, self.children.T).astype(np.int32)
        arrays = {"roots": self.roots, "left": left, "right": right}
        arrays |= {"feature": self.feature, "threshold": self.threshold}
        return {f"trees.{name}": array for name, array in arrays.items()}

    @classmethod
    def from_state(cls, state: State, forests: int | None, columns: int) -> Self:
        """Restore what `to_arrays` gave; ValueError if a walk could leave the arrays or not end.

        `forests`: how many there must be; any number if None.
        """
        roots = state.array("trees.roots", (forests, None), np.int64)
        left = state.array("trees.left", (None,), np.int32)
        nodes = left.size
        right, feature = (
            state.array(f"trees.{name}", (nodes,), np.int32) for name in ("right", "feature")
        )
        if not _are_roots(roots, nodes):
            raise ValueError("the trees do not have one root each")
        numbers = np.arange(nodes)
        tree = np.searchsorted(roots.ravel(), numbers, side="right") - 1
        end = np.append(roots.ravel()[1:], nodes)[tree]
        leaf = (left == _LEAF) & (right == _LEAF)
        inner = (left > numbers) & (left < end) & (right > numbers) & (right < end)
        if not (leaf | inner).all():
            raise ValueError("a tree has a branch that leads nowhere")
        if not _between(feature, 0, columns - 1):
            raise ValueError("a tree asks for a column that does not exist")
        return cls(roots, _children(left, right), feature, _stored_threshold(state, nodes))


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees with one number (nodes,) per node; that of a leaf is what it says of its samples."""

    splits: Splits
    value: NDArray[Any]

    @classmethod
    def from_forests(cls, forests: Iterable[Any], n_trees: int) -> Self:
        """Return the trees of fitted scikit-learn forests, each for one label with both values."""
        nodes, values = [], []
        for forest in forests:
            for estimator in forest.estimators_:
                counts = estimator.tree_.value[:, 0]
                nodes.append(Nodes.of_scikit_learn(estimator.tree_))
                values.append(counts[:, 1] / counts.sum(axis=1))
        return cls(Splits.from_trees(nodes, n_trees), _joined(values, np.float64))

    def values(self, forest: int, inputs: NDArray[np.float32]) -> NDArray[Any]:
        """Numbers of the leaves that the rows of `inputs` (n, d) fall into, (n, T)."""
        return self.value[self.splits.leaves(forest, inputs)]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays, for a model file."""
        return self.splits.to_arrays() | {"trees.value": self.value}

    @classmethod
    def from_state(
        cls,
        state: State,
        forests: int | None,
        columns: int,
        dtype: type[np.generic] = np.float64,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> Self:
        """Restore what `to_arrays` gave; ValueError if it cannot be used."""
        splits = Splits.from_state(state, forests, columns)
        value = state.array("trees.value", (splits.n_nodes,), dtype)
        if not _between(value, *bounds):
            raise ValueError(f"the value of a tree is not between {bounds[0]:g} and {bounds[1]:g}")
        return cls(splits, value)


def _children(left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int32]:
    """Both children of every node, (nodes, 2), and leaves as their own."""
    own = np.arange(left.size, dtype=np.int32)
    return np.stack([np.where(side == _LEAF, own, side) for side in (left, right)], axis=1)


def _stored_threshold(state: State, nodes: int) -> NDArray[np.float32]:
    """Thresholds of a state; older files have them with 64 bits."""
    array = state.arrays.get("trees.threshold", np.zeros(0))
    kind = np.float64 if array.dtype == np.float64 else np.float32
    return _rounded_down(state.array("trees.threshold", (nodes,), kind))


def _rounded_down(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """Return the largest float32 that is not above each number."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)


def _are_roots(roots: NDArray[np.int64], nodes: int) -> bool:
    """Whether the trees follow each other and fill all nodes: no walk is longer than its tree."""
    if roots.size == 0:
        return roots.shape[0] == 0 and nodes == 0
    first = roots.ravel()
    return bool(first[0] == 0 and first[-1] < nodes and (np.diff(first) > 0).all())


def _between(array: NDArray[Any], low: float, high: float) -> bool:
    return bool(((array >= low) & (array <= high)).all())


def _joined(arrays: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(arrays).astype(dtype) if arrays else np.zeros(0, dtype=dtype)


def _shifted(children: Sequence[NDArray[Any]], starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Join the child numbers of several trees whose first nodes get the numbers `starts`."""
    moved = [
        np.where(child == _LEAF, _LEAF, child + start)
        for child, start in zip(children, starts, strict=True)
    ]
    return _joined(moved, np.int32)
