"""Trees as nodes: walked by the runtime's tree operator, leaf values looked up in a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.export.graph import Graph
from viewgap.methods.trees.arrays import Splits


def tree_sums(
    graph: Graph, inputs: str, splits: Splits, weight: NDArray[Any], target: NDArray[Any]
) -> str:
    """Sum the weights of the leaves of all trees by target, (b, n_targets) float32.

    `weight` (nodes,) of every leaf, `target` (trees,): where a tree's number is added.
    """
    roots = splits.roots.ravel()
    tree = np.searchsorted(roots, np.arange(splits.n_nodes), side="right") - 1
    number = np.arange(splits.n_nodes) - roots[tree]
    leaf = splits.is_leaf
    children = np.where(leaf[:, None], 0, splits.children - roots[tree][:, None])
    modes = np.where(leaf, "LEAF", "BRANCH_LEQ").tolist()
    own = np.flatnonzero(leaf)
    return graph.add(
        "TreeEnsembleRegressor",
        inputs,
        domain="ai.onnx.ml",
        n_targets=int(target.max()) + 1,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=number.tolist(),
        nodes_featureids=splits.feature.tolist(),
        nodes_values=splits.threshold.astype(np.float32).tolist(),
        nodes_modes=modes,
        nodes_truenodeids=children[:, 0].tolist(),
        nodes_falsenodeids=children[:, 1].tolist(),
        nodes_missing_value_tracks_true=[0] * splits.n_nodes,
        target_treeids=tree[own].tolist(),
        target_nodeids=number[own].tolist(),
        target_ids=target[tree[own]].tolist(),
        target_weights=np.asarray(weight, dtype=np.float32)[own].tolist(),
    )


def forest_mean(graph: Graph, inputs: str, splits: Splits, values: NDArray[Any]) -> str:
    """Mean over all trees of the values (leaves, c) of the leaves that rows fall into, (b, c).

    Every tree says the number of its leaf within the tree, which float32 holds exactly; the first
    leaf of each tree in the table is added as a whole number.
    """
    leaf = splits.is_leaf
    roots = splits.roots.ravel()
    tree = np.searchsorted(roots, np.arange(splits.n_nodes), side="right") - 1
    order = np.cumsum(leaf) - 1
    first = order[roots] + np.where(leaf[roots], 0, 1)
    found = tree_sums(graph, inputs, splits, order - first[tree], np.arange(len(roots)))
    index = graph.add("Add", graph.cast(found, np.int64), graph.constant(first, np.int64))
    rows = graph.add("Gather", graph.constant(values, np.float32), index)
    return graph.add("ReduceMean", rows, graph.constant([1], np.int64), keepdims=0)
