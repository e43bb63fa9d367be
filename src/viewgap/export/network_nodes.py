"""Row-wise networks as nodes: torch's exporter, and its graph taken into ours."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.export.graph import OPSET, Graph
from viewgap.nn.codebook import SharedCodebook
from viewgap.training.network import RowwiseNetwork

_ROWS = 7  # of the example; the batch is dynamic


class NotTraceableError(Exception):
    """A network whose operations depend on how many rows there are."""


class _Rows(nn.Module):
    """Prepared rows of all views and their masks to probabilities, as prediction does it."""

    def __init__(self, network: RowwiseNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Sequence[Tensor], observed: Tensor) -> Tensor:
        codes = [self.network.encode_rows(v, x, x.shape[0]) for v, x in enumerate(rows)]
        shown = [
            torch.where(observed[:, view : view + 1], own, torch.zeros_like(own))
            for view, own in enumerate(codes)
        ]
        return self.network.answer(torch.stack(shown), observed)


class _LookUp(nn.Module):
    """The codebook in evaluation, in operators that can be exported."""

    def __init__(self, codebook: SharedCodebook) -> None:
        super().__init__()
        unit = F.normalize(codebook.codes.detach(), dim=1)
        self.register_buffer("unit", unit)
        self.register_buffer(
            "vectors", unit if codebook.length == "unit" else codebook.codes.detach()
        )
        self.code_dim = codebook.code_dim

    def quantise(self, x: Tensor, n_rows: int) -> Tensor:
        segments = x.reshape(x.shape[0], -1, self.code_dim)
        nearest = (segments @ self.get_buffer("unit").T).argmax(dim=-1)
        return self.get_buffer("vectors")[nearest].reshape(x.shape)


def network_nodes(
    graph: Graph, network: RowwiseNetwork, rows: Sequence[str], observed: str, dims: Sequence[int]
) -> str:
    """Add the network; prepared rows m times (b, d_v) and observed (b, m) -> (b, c)."""
    proto = _exported(network, dims)
    inputs = dict(zip([value.name for value in proto.graph.input], [*rows, observed], strict=True))
    return _taken_in(graph, proto, inputs)


def _exported(network: RowwiseNetwork, dims: Sequence[int]) -> Any:
    own = copy.deepcopy(network).cpu().eval()
    for module in list(own.modules()):
        if isinstance(getattr(module, "codebook", None), SharedCodebook):
            module.codebook = _LookUp(module.codebook)  # type: ignore[arg-type]
    dtype = next(own.parameters()).dtype
    example = [torch.zeros(_ROWS, dim, dtype=dtype) for dim in dims]
    mask = torch.ones(_ROWS, len(dims), dtype=torch.bool)
    batch = torch.export.Dim("batch")
    shapes = ([{0: batch} for _ in dims], {0: batch})
    with _quiet(), torch.no_grad():
        # Traced here: where that fails, torch.onnx would fall back to ways that fix the batch.
        try:
            traced = torch.export.export(
                _Rows(own).eval(), (example, mask), dynamic_shapes=shapes, strict=False
            )
        except torch._dynamo.exc.UserError as error:
            raise NotTraceableError from error
        program = torch.onnx.export(traced, dynamo=True, opset_version=OPSET, verbose=False)
    if program is None:
        raise RuntimeError("torch.onnx.export gave nothing")
    proto = program.model_proto
    if proto.functions:
        import onnx.inliner

        proto = onnx.inliner.inline_local_functions(proto)
    return proto


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's progress and remarks."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _taken_in(graph: Graph, proto: Any, inputs: dict[str, str]) -> str:
    """Add the nodes and constants of a model under new names; returns its output."""
    names = dict(inputs)
    for constant in proto.graph.initializer:
        names[constant.name] = graph.new_name("weight")
        constant.name = names[constant.name]
        graph.constants.append(constant)
    for node in proto.graph.node:
        for position, name in enumerate(node.input):
            node.input[position] = names[name] if name else ""
        for position, name in enumerate(node.output):
            if name:
                names[name] = graph.new_name(node.op_type)
                node.output[position] = names[name]
        node.name = graph.new_name(f"node_{node.op_type}")
        del node.metadata_props[:]
        graph.nodes.append(node)
    return names[proto.graph.output[0].name]
