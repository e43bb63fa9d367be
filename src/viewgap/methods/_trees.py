"""Decision trees as plain arrays: made from scikit-learn's, walked without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.methods._blocks import checked_array
from viewgap.state import State

_LEAF = -1


@dataclass(frozen=True, eq=False)
class Trees:
    """Several forests of T trees each, all nodes in one row of arrays.

    `roots` (forests, T) are node numbers. A node sends a sample to `left` where
    `x[feature] <= threshold`, else to `right`; both numbers are larger than its own, so that every
    walk ends. A leaf has -1 on both sides, and its `value` is the probability.
    """

    roots: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]

    @classmethod
    def from_forest(cls, forest: Any) -> Self:
        """Return the trees of a fitted scikit-learn forest for one label with both values."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        counts = [tree.value[:, 0] for tree in trees]
        return cls(
            roots[None].astype(np.int64),
            _shifted([tree.children_left for tree in trees], roots),
            _shifted([tree.children_right for tree in trees], roots),
            np.concatenate([np.maximum(tree.feature, 0) for tree in trees]).astype(np.int32),
            np.concatenate([tree.threshold for tree in trees]).astype(np.float64),
            np.concatenate([count[:, 1] / count.sum(axis=1) for count in counts]),
        )

    @classmethod
    def joined(cls, forests: Sequence[Self], n_trees: int) -> Self:
        """Put the forests of several labels together; without any, an empty set of trees."""
        whole, part = np.zeros(0, dtype=np.int32), np.zeros(0)
        if not forests:
            return cls(np.zeros((0, n_trees), dtype=np.int64), whole, whole, whole, part, part)
        starts = np.cumsum([0, *(forest.value.size for forest in forests[:-1])])
        return cls(
            np.concatenate([f.roots + start for f, start in zip(forests, starts, strict=True)]),
            _shifted([forest.left for forest in forests], starts),
            _shifted([forest.right for forest in forests], starts),
            np.concatenate([forest.feature for forest in forests]),
            np.concatenate([forest.threshold for forest in forests]),
            np.concatenate([forest.value for forest in forests]),
        )

    def predict(self, forest: int, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Mean leaf value over the trees of a forest, (n,)."""
        n_trees = self.roots.shape[1]
        node = np.tile(self.roots[forest], len(inputs))  # sample by sample, its place in each tree
        walking = np.arange(node.size)
        while walking.size:
            here = node[walking]
            inner = self.left[here] != _LEAF
            walking, here = walking[inner], here[inner]
            goes_left = inputs[walking // n_trees, self.feature[here]] <= self.threshold[here]
            node[walking] = np.where(goes_left, self.left[here], self.right[here])
        mean: NDArray[np.float64] = self.value[node].reshape(-1, n_trees).mean(axis=1)
        return mean

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays, for a model file."""
        return {f"trees.{name}": array for name, array in vars(self).items()}

    @classmethod
    def from_state(cls, state: State, forests: int, columns: int) -> Self:
        """Restore what `to_arrays` gave; ValueError if a walk could leave the arrays or not end."""
        roots = checked_array(state, "trees.roots", (forests, None), np.int64)
        value = checked_array(state, "trees.value", (None,), np.float64)
        nodes = value.size
        left, right, feature = (
            checked_array(state, f"trees.{name}", (nodes,), np.int32)
            for name in ("left", "right", "feature")
        )
        threshold = checked_array(state, "trees.threshold", (nodes,), np.float64)
        if not _are_roots(roots, nodes):
            raise ValueError("the trees do not have one root each")
        numbers = np.arange(nodes)
        tree = np.searchsorted(roots.ravel(), numbers, side="right") - 1
        end = np.append(roots.ravel()[1:], nodes)[tree]
        leaf = (left == _LEAF) & (right == _LEAF)
        inner = (left > numbers) & (left < end) & (right > numbers) & (right < end)
        if not (leaf | inner).all():
            raise ValueError("a tree has a branch that leads nowhere")
        if not _between(feature, 0, columns - 1) or not _between(value, 0, 1):
            raise ValueError("a tree asks for a column that does not exist, or has no probability")
        return cls(roots, left, right, feature, threshold, value)


def _are_roots(roots: NDArray[np.int64], nodes: int) -> bool:
    """Whether the trees follow each other and fill all nodes: no walk is longer than its tree."""
    if roots.size == 0:
        return roots.shape[0] == 0 and nodes == 0
    first = roots.ravel()
    return bool(first[0] == 0 and first[-1] < nodes and (np.diff(first) > 0).all())


def _between(array: NDArray[Any], low: float, high: float) -> bool:
    return bool(((array >= low) & (array <= high)).all())


def _shifted(
    children: Sequence[NDArray[Any]], starts: NDArray[np.signedinteger[Any]]
) -> NDArray[np.int32]:
    """Join the child numbers of several trees whose first nodes get the numbers `starts`."""
    moved = [
        np.where(child == _LEAF, _LEAF, child + start)
        for child, start in zip(children, starts, strict=True)
    ]
    return np.concatenate(moved).astype(np.int32)
