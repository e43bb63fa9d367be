"""Fused GPU kernels beside the plain code: the same losses, gradients and codes, in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from unittest import mock

import torch
from torch import Tensor

from benchmarks.data import corel5k, make_model, random_data
from benchmarks.record import Context, Figure, Measured
from viewgap.data.validation import as_labels
from viewgap.methods.scsd import network as scsd_network
from viewgap.nn import codebook, fusion, gather, linear, losses, norm
from viewgap.training.batches.source import BatchSource
from viewgap.training.runtime import choose_runtime

TIE = 1e-6  # similarities closer than this are a tie: rounding decides


@contextmanager
def plain() -> Iterator[None]:
    """Without any fused kernel."""
    with ExitStack() as stack:
        for module in (scsd_network, codebook, fusion, gather, linear, losses, norm):
            stack.enter_context(mock.patch.object(module, "kernels_for", return_value=None))
        yield


@lru_cache
def disagreement(context: Context, name: str) -> dict[str, float]:
    """Relative distance of losses and of gradients, and codes that differ away from ties."""
    shape = corel5k(context)
    views, Y = random_data(shape)
    labels = as_labels(Y, views)
    model = make_model(name, context.device, shape, input_dropout=0.0, dropout=0.0)
    settings = model._resolve(labels.n_labels)
    runtime = choose_runtime(context.device, "highest")
    network = model._make(views.dims, labels.n_labels, settings, torch.Generator().manual_seed(0))
    network.prepare(labels)
    network.to(runtime.device).train()
    source = BatchSource(views, labels, None, runtime)
    order = torch.Generator().manual_seed(0)
    epoch = source.index([torch.arange(settings.batch_size)], network.layout, order)
    batch = source.assemble(epoch.batch(0))
    with runtime.active(), torch.no_grad():
        network.loss_terms(batch)  # starts the codebook
        weights = {k: v.clone() for k, v in network.state_dict().items()}
        numbers = network.encode_batch(batch)[1].indices
        similar = _two_best(network, batch)
        with plain():
            clear = (similar.values[:, 0] - similar.values[:, 1]) > TIE
            wrong = (similar.indices[:, 0] != numbers.reshape(-1)) & clear
    found = []
    for path in (None, plain):
        network.load_state_dict(weights)
        network.zero_grad(set_to_none=True)
        with ExitStack() as stack:
            stack.enter_context(runtime.active())
            if path is not None:
                stack.enter_context(path())
                # A tie that falls the other way is another code, and that is another gradient.
                same = lambda *_: numbers.reshape(-1)  # noqa: E731
                stack.enter_context(mock.patch.object(codebook, "nearest_codes", same))
            terms = network.loss_terms(batch)
            torch.stack(list(terms.values())).sum().backward()
        losses = torch.stack([value.detach() for value in terms.values()])
        found.append((losses, [p.grad for p in network.parameters() if p.grad is not None]))
    (losses, gradients), (plain_losses, plain_gradients) = found
    apart = [a - b for a, b in zip(gradients, plain_gradients, strict=True)]
    return {
        "losses": float(((losses - plain_losses).abs() / plain_losses.abs()).max()),
        "gradients": _norm(apart) / _norm(plain_gradients),
        "codes": float(wrong.sum()),
    }


def _two_best(network: scsd_network.SCSDNetwork, batch: object) -> torch.return_types.topk:
    book = network.codebook
    raw = network.raw_codes(batch).reshape(-1, book.code_dim).double()
    unit = torch.nn.functional.normalize(raw, dim=1)
    codes = torch.nn.functional.normalize(book.codes.double(), dim=1)
    return (unit @ codes.T).topk(2, dim=1)


def _norm(tensors: list[Tensor]) -> float:
    return float(torch.linalg.vector_norm(torch.stack([t.norm() for t in tensors])))


def measure(context: Context, name: str, key: str) -> Measured:
    return Measured(disagreement(context, name)[key])


FIGURES = [
    Figure(
        f"agreement_{key}_{name}",
        "codes" if key == "codes" else "relative",
        partial(measure, name=name, key=key),
        {"cuda": 0.0 if key == "codes" else 1e-5},
        devices=("cuda",),
    )
    for name in ("paper", "bare_network")
    for key in ("losses", "gradients", "codes")
]
