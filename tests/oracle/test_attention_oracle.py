"""Attention between samples, views and labels against loops written from the equations."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from small_batches import normal as draw
from small_batches import seeded
from viewgap.nn import batch_attention
from viewgap.nn.attention import (
    LayerNorm,
    SharedTokenLayer,
    TransformerLayer,
    TransformerStack,
    hidden_layer,
    power_weights,
)
from viewgap.nn.dropout import Dropout
from viewgap.nn.label_graph import GraphAttention, conditional_labels
from viewgap.nn.linear import Linear, make_linear

B, N, M, F, C = 7, 5, 3, 6, 4
TAU = 0.2


def mask(*shape: int, seed: int) -> Tensor:
    return draw(*shape, seed=seed) > 0


def shaken(module: torch.nn.Module) -> torch.nn.Module:
    """With all parameters random, norms and biases included, in float64."""
    module.double()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter += 0.3 * draw(*parameter.shape, seed=100 + number)
    return module


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def cosine(a: list[float], b: list[float]) -> float:
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def close(found: Tensor, expected: list) -> None:
    torch.testing.assert_close(
        found.detach(), torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9
    )


# ---------------------------------------------------------------------- attention between samples


def samples() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes and masks: sample 0 has no view at all, 1 has no view in common with anybody."""
    observed, known = mask(B, M, seed=1), mask(N, M, seed=2)
    observed[0] = False
    known[:, 2] = False
    known[1, 2] = True
    observed[1] = torch.tensor([False, False, True])
    known[1, 2] = False
    known[0] = torch.tensor([True, True, False])
    return draw(M, B, F, seed=3), draw(M, N, F, seed=4), observed, known


def naive_cosine(codes: Tensor, others: Tensor, observed: Tensor, known: Tensor) -> list:
    """Best cosine over common views, None if there is none."""
    rows = []
    for i in range(codes.shape[1]):
        row = []
        for j in range(others.shape[1]):
            views = [v for v in range(M) if observed[i, v] and known[j, v]]
            found = [cosine(codes[v, i].tolist(), others[v, j].tolist()) for v in views]
            row.append(max(found, default=None))
        rows.append(row)
    return rows


def naive_fusion(
    codes: Tensor, others: Tensor, observed: Tensor, known: Tensor, among: bool
) -> tuple[list, list, list]:
    """K with rows that add up to one, trust, and the fused codes."""
    best = naive_cosine(codes, others, observed, known)
    kernel, trust, fused = [], [], []
    for i in range(codes.shape[1]):
        row = [0.0 if b is None else math.exp(b / TAU) for b in best[i]]
        if among:
            row[i] = 0.0
        raw, total = row, sum(row)
        row = [k / (total + 1e-9) for k in row]
        kernel.append(row)
        numbers, weights = [0.0] * F, []
        for v in range(M):
            code = codes[v, i].tolist()
            if not observed[i, v]:
                have = [j for j in range(len(row)) if known[j, v]]
                code = [sum(row[j] * float(others[v, j, f]) for j in have) for f in range(F)]
                sure = max((math.log(raw[j] + 1e-9) * TAU for j in have), default=0.0)
                weights.append(min(1.0, max(0.0, sure)))
            else:
                weights.append(1.0)
            numbers = [a + weights[v] * x for a, x in zip(numbers, code, strict=True)]
        trust.append(weights)
        fused.append([a / (sum(weights) or 1.0) for a in numbers])
    return kernel, trust, fused


@pytest.mark.parametrize("among", [True, False], ids=["batch", "references"])
def test_batch_attention(among: bool) -> None:
    codes, others, observed, known = samples()
    if among:
        others, known = codes, observed
    best = batch_attention.best_cosine(codes, others, observed, known)
    if among:
        best = batch_attention.without_self(best)
    kernel, trust, fused = naive_fusion(codes, others, observed, known, among)
    weights = batch_attention.attention_weights(best, TAU)
    torch.testing.assert_close(weights, torch.tensor(kernel).double(), rtol=0, atol=1e-6)
    assert (weights[0] == 0).all()
    found = batch_attention.confidence(best, observed, known)
    # exp and log of the cosine cancel out, up to the 1e-9 in the logarithm.
    torch.testing.assert_close(found, torch.tensor(trust).double(), rtol=0, atol=1e-6)
    filled = batch_attention.fill_in(codes, others, observed, known, weights)
    result = batch_attention.mean_by_confidence(filled, found)
    torch.testing.assert_close(result, torch.tensor(fused).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("among", [True, False], ids=["batch", "references"])
def test_gradient_of_batch_attention(among: bool) -> None:
    codes, others, observed, known = samples()

    def fuse(codes: Tensor, others: Tensor) -> Tensor:
        seen = observed if among else known
        others = codes if among else others
        best = batch_attention.best_cosine(codes, others, observed, seen)
        best = batch_attention.without_self(best) if among else best
        weights = batch_attention.attention_weights(best, TAU)
        filled = batch_attention.fill_in(codes, others, observed, seen, weights)
        trust = batch_attention.confidence(best, observed, seen)
        return batch_attention.mean_by_confidence(filled, trust)

    assert gradcheck(fuse, (codes.requires_grad_(), others.requires_grad_()))


def test_one_sample_alone_keeps_its_own_views() -> None:
    codes, observed = draw(M, 1, F), torch.tensor([[True, False, True]])
    best = batch_attention.without_self(
        batch_attention.best_cosine(codes, codes, observed, observed)
    )
    weights = batch_attention.attention_weights(best, TAU)
    filled = batch_attention.fill_in(codes, codes, observed, observed, weights)
    trust = batch_attention.confidence(best, observed, observed)
    assert trust.tolist() == [[1.0, 0.0, 1.0]]
    fused = batch_attention.mean_by_confidence(filled, trust)
    torch.testing.assert_close(fused, (codes[0] + codes[2]) / 2)


# ---------------------------------------------------------------------- label graph


def make_graph(dropout: float = 0.0) -> tuple[GraphAttention, Tensor]:
    graph = shaken(GraphAttention(C, F, 2, dropout, 0.2, seeded()))
    neighbours = mask(C, C, seed=5).fill_diagonal_(False)
    neighbours[2] = False
    neighbours[0, 1] = True
    return graph, neighbours


def test_graph_attention() -> None:
    graph, neighbours = make_graph()
    x, size = draw(C, C, seed=6), F // 2
    expected = [[0.0] * F for _ in range(C)]
    for h in range(2):
        weight = graph.weight[h].detach()
        nodes = [[dot(x[i].tolist(), weight[:, o].tolist()) for o in range(size)] for i in range(C)]
        source, target = graph.source[h, :, 0].tolist(), graph.target[h, :, 0].tolist()
        for i in range(C):
            # Without neighbours, all nodes count alike.
            near = [j for j in range(C) if neighbours[i, j]]
            scores = {j: dot(source, nodes[i]) + dot(target, nodes[j]) for j in near}
            shares = {j: math.exp(s if s > 0 else 0.2 * s) for j, s in scores.items()}
            shares = shares or dict.fromkeys(range(C), 1.0)
            for o in range(size):
                mixed = sum(s * nodes[j][o] for j, s in shares.items()) / sum(shares.values())
                expected[i][h * size + o] = mixed if mixed > 0 else math.exp(mixed) - 1
    close(graph(x, neighbours), expected)


def test_gradient_of_graph_attention() -> None:
    graph, neighbours = make_graph()
    x = draw(C, C, seed=6).requires_grad_()
    assert gradcheck(lambda x, *_: graph(x, neighbours), (x, *graph.parameters()))


def test_conditional_labels() -> None:
    positives = mask(9, C, seed=7).double()
    positives[:, 3] = 0
    found = conditional_labels(positives)
    for i in range(C):
        own = positives[:, i].sum()
        for j in range(C):
            both = (positives[:, i] * positives[:, j]).sum()
            assert float(found[i, j]) == pytest.approx(float(both / own) if own else 0.0)


# ---------------------------------------------------------------------- transformer layers


def naive_norm(row: list[float], norm: LayerNorm) -> list[float]:
    mean = sum(row) / len(row)
    std = math.sqrt(sum((x - mean) ** 2 for x in row) / (len(row) - 1))
    pairs = zip(row, norm.weight.tolist(), norm.bias.tolist(), strict=True)
    return [w * (x - mean) / (std + 1e-6) + b for x, w, b in pairs]


def naive_linear(row: list[float], layer: Linear) -> list[float]:
    pairs = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [dot(w, row) + b for w, b in pairs]


def add(a: list[float], b: list[float]) -> list[float]:
    return [x + y for x, y in zip(a, b, strict=True)]


def naive_layer(x: list, allowed: list | None, layer: TransformerLayer) -> list:
    """One sample: tokens x, and who may look at whom (whoever may at none: at all)."""
    tokens, size = range(len(x)), len(x[0]) // layer.heads
    parts = [naive_linear(naive_norm(row, layer.before_attention), layer.project) for row in x]
    result = []
    for i in tokens:
        mixed: list[float] = []
        for h in range(layer.heads):
            q, k, v = (
                slice(p * len(x[0]) + h * size, p * len(x[0]) + (h + 1) * size) for p in range(3)
            )
            scores = [dot(parts[i][q], parts[j][k]) / math.sqrt(size) for j in tokens]
            if allowed is not None:
                scores = [s if allowed[i][j] else -1e9 for j, s in enumerate(scores)]
            top = max(scores)
            shares = [math.exp(s - top) for s in scores]
            values = [parts[j][v] for j in tokens]
            mixed += [
                sum(s * value[f] for s, value in zip(shares, values, strict=True)) / sum(shares)
                for f in range(size)
            ]
        row = add(x[i], naive_linear(mixed, layer.output))
        hidden = naive_linear(naive_norm(row, layer.before_forward), layer.widen)
        hidden = [max(0.0, value) for value in hidden]
        result.append(add(row, naive_linear(hidden, layer.narrow)))
    return result


def make_layer(kind: type[TransformerLayer] = TransformerLayer, dropout: float = 0.0):
    return shaken(kind(F, 2, 8, dropout, seeded()))


def test_masked_layer() -> None:
    layer, x = make_layer(), draw(B, M, F, seed=8)
    observed = mask(B, M, seed=9)
    observed[0] = False
    allowed = observed.unsqueeze(1) & observed.unsqueeze(2)
    expected = [naive_layer(x[b].tolist(), allowed[b].tolist(), layer) for b in range(B)]
    close(layer(x, allowed), expected)
    close(layer(x), [naive_layer(x[b].tolist(), None, layer) for b in range(B)])


def test_layers_end_in_a_norm() -> None:
    stack = shaken(TransformerStack(2, F, 2, 8, 0.0, seeded()))
    x = draw(1, M, F, seed=8)
    rows = x[0].tolist()
    for layer in stack.layers:
        rows = naive_layer(rows, None, layer)
    close(stack(x), [[naive_norm(row, stack.norm) for row in rows]])


def test_missing_tokens_are_never_looked_at() -> None:
    stack = shaken(TransformerStack(3, F, 2, 8, 0.0, seeded()))
    x, observed = draw(B, M, F, seed=8), mask(B, M, seed=9)
    allowed = observed.unsqueeze(1) & observed.unsqueeze(2)
    other = torch.where(observed.unsqueeze(-1), x, 1e6 * draw(B, M, F, seed=10))
    torch.testing.assert_close(stack(x, allowed)[observed], stack(other, allowed)[observed])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_shared_tokens_equal_the_plain_layer(dropout: float) -> None:
    """Computed once for all samples, or for every sample: the same."""
    layer = make_layer(SharedTokenLayer, dropout).eval()
    own, shared = draw(B, F, seed=11), draw(C, F, seed=12)
    tokens = torch.cat([own.unsqueeze(1), shared.expand(B, C, F)], dim=1)
    expected = TransformerLayer.forward(layer, tokens)
    torch.testing.assert_close(layer(own, shared), expected)
    torch.testing.assert_close(layer(own, shared, own_only=True), expected[:, :1])
    close(expected[:2], [naive_layer(tokens[b].tolist(), None, layer) for b in range(2)])


def test_shared_tokens_drop_what_the_plain_layer_drops() -> None:
    """Attention with dropout is that of its masks, sample by sample."""
    layer = make_layer(SharedTokenLayer, 0.4).train()
    weights, values = draw(2, C, C, seed=13).softmax(dim=-1), draw(2, C, 3, seed=14)
    layer.dropout.generator = seeded(5)
    found = layer._mix_shared(weights, values, B)
    kept = torch.rand(2, B, C, C, generator=seeded(5)) < 0.6
    for h in range(2):
        for b in range(B):
            expected = (weights[h] * kept[h, b] / 0.6) @ values[h]
            torch.testing.assert_close(found[h, b], expected)


def test_dropout_keeps_the_mean_of_a_layer() -> None:
    """Attention alone is linear in what is dropped: over many draws the mean is that without."""
    layer = make_layer(SharedTokenLayer, 0.3)
    own, shared = draw(1, F, seed=11), draw(C, F, seed=12)
    both = layer.parts(layer.before_attention(torch.cat([own.expand(20_000, F), shared])))
    mine = [part[:-C].transpose(0, 1) for part in both]
    theirs = [part[-C:].transpose(0, 1) for part in both]
    layer.dropout.generator = seeded(1)

    def shared_part(mine: list[Tensor], theirs: list[Tensor]) -> Tensor:
        return layer._attend_shared(torch.zeros_like(mine[0][0]).repeat(1, 2), mine, theirs)

    pieces: list[Callable[[list[Tensor], list[Tensor]], Tensor]]
    pieces = [layer._attend_own, shared_part]
    with torch.no_grad():
        dropped = [piece(mine, theirs).mean(dim=0) for piece in pieces]
        layer.eval()
        whole = [piece([p[:, :1] for p in mine], theirs)[0] for piece in pieces]
    for a, b in zip(dropped, whole, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0.05)


def test_the_feed_forward_branch_is_dropped_twice() -> None:
    layer = make_layer(dropout=0.3).train()
    layer.dropout.generator = layer.dropout_twice.generator = seeded(4)
    with torch.no_grad():
        for linear in (layer.output, layer.narrow):
            linear.weight.zero_()
            linear.bias.fill_(float(linear is layer.narrow))
        nothing = torch.zeros(1, 5_000, F, dtype=torch.double)
        found = layer.finish(nothing, nothing)
    kept = found != 0.0
    torch.testing.assert_close(found[kept], torch.full_like(found[kept], 1.0 / 0.7**2))
    assert float(kept.double().mean()) == pytest.approx(0.7**2, abs=0.02)


@pytest.mark.parametrize("size", [1, 2, F])
def test_gradient_of_the_norm(size: int) -> None:
    norm = shaken(LayerNorm(size))
    inputs = (draw(B, size, seed=15).requires_grad_(), *norm.parameters())
    assert gradcheck(lambda x, *_: norm(x), inputs)


def test_norm_of_equal_numbers_has_no_gradient_but_is_finite() -> None:
    norm, x = shaken(LayerNorm(F)), torch.zeros(2, F, dtype=torch.float64, requires_grad=True)
    norm(x).sum().mul(0.0).backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_hidden_layer(rate: float) -> None:
    """Gradients of x, weight and bias, with the same mask drawn every time."""
    linear, dropout = make_linear(F, 8, seeded()).double(), Dropout(rate)
    x = draw(2, B, F, seed=16).requires_grad_()

    def hidden(x: Tensor, *_: Tensor) -> Tensor:
        dropout.generator = seeded(3)
        return hidden_layer(x, linear, dropout)

    assert gradcheck(hidden, (x, *linear.parameters()))
    kept = (torch.rand(2 * B, 8, generator=seeded(3)) < 1 - rate).view(2, B, 8) / (1 - rate)
    torch.testing.assert_close(hidden(x), torch.relu(linear(x)) * kept.double())


def test_hidden_layer_multiplies_in_the_format_of_the_layer() -> None:
    linear = make_linear(F, 8, seeded())
    x = draw(B, F, seed=16).float().requires_grad_()
    expected = torch.relu(linear(x))
    linear.set_matmul_dtype(torch.bfloat16)
    found = hidden_layer(x, linear, Dropout(0.0))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)
    found.sum().backward()
    assert x.grad.dtype == linear.weight.grad.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TransformerLayer, SharedTokenLayer])
def test_gradient_of_a_layer_with_dropout(kind: type[TransformerLayer]) -> None:
    layer = make_layer(kind, 0.3).train()
    shapes = [(2, F), (C, F)] if kind is SharedTokenLayer else [(2, M, F)]
    inputs = [draw(*shape, seed=17 + n).requires_grad_() for n, shape in enumerate(shapes)]

    def run(*tensors: Tensor) -> Tensor:
        layer.dropout.generator = layer.dropout_twice.generator = seeded(2)
        return layer(*tensors[: len(inputs)])

    assert gradcheck(run, (*inputs, *layer.parameters()))


# ---------------------------------------------------------------------- weights of views


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_view_weights(power: float) -> None:
    strength, observed = draw(M, seed=18), mask(B, M, seed=19)
    observed[0] = False
    found = power_weights(strength, observed, power)
    for i in range(B):
        raw = [
            math.exp(abs(float(a)) ** power) * float(seen)
            for a, seen in zip(strength, observed[i], strict=True)
        ]
        total = sum(raw) or 1.0
        np.testing.assert_allclose(found[i].tolist(), [r / total for r in raw], atol=1e-12)
    strength.requires_grad_()
    assert gradcheck(lambda a: power_weights(a, observed, power), (strength,))
