"""The losses of PCVE and TDLSR against loops written from the equations, one number at a time."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from small_batches import (
    DIMS,
    FORMS,
    B,
    C,
    draw,
    naive_kl,
    normal,
)
from small_networks import PCVE, TDLSR, M, make_batch, make_network
from viewgap.methods.pcve import (
    Gaussians,
    exchange,
    fuse_targets,
    permutation_loss,
    rotated_sources,
    target_coherence,
)
from viewgap.nn.contrast import cross_view_contrast
from viewgap.nn.gaussian import product_of_experts

K = PCVE.embedding


# ---------------------------------------------------------------------- PCVE


def naive_sources(seen: list[bool], rotations: list[int]) -> list[list[int]]:
    """Every observed source walks on from one observed place to the next."""
    result = [[u] * M for u in range(M)]
    for t in range(M):
        for source in range(M):
            if seen[source]:
                place, left = source, rotations[t]
                while left:
                    place = (place + 1) % M
                    left -= seen[place]
                result[place][t] = source
    return result


def test_sources_are_rotated_among_the_observed_ones() -> None:
    masks = [[bool(number >> u & 1) for u in range(M)] for number in range(2**M)]
    for shift in range(M):
        rotations = draw(len(masks), M, seed=shift).argsort(dim=1)
        found = rotated_sources(torch.tensor(masks), rotations)
        for i, seen in enumerate(masks):
            if any(seen):
                assert found[:, i].tolist() == naive_sources(seen, rotations[i].tolist())
            else:  # what only fills a batch up
                assert found[:, i].tolist() == [[u] * M for u in range(M)]


def pairs_of(seed: int, rows: int = B) -> Gaussians:
    return Gaussians(normal(M, rows, M, K, seed=seed), draw(M, rows, M, K, seed=seed + 1) + 0.1)


def test_exchange_moves_whole_codes() -> None:
    values, sources = normal(M, B, M, K), (M * draw(M, B, M)).long()
    found = exchange(values, sources)
    for u in range(M):
        for i in range(B):
            for t in range(M):
                assert torch.equal(found[u, i, t], values[sources[u, i, t], i, t])


def test_code_of_a_source_is_the_product_over_targets() -> None:
    pairs = pairs_of(0)
    found = fuse_targets(pairs)
    everything = torch.ones(B, M, dtype=torch.bool)
    for u in range(M):
        of_targets = (values[u].transpose(0, 1) for values in pairs)
        expected = product_of_experts(*of_targets, everything)
        torch.testing.assert_close((found.mean[u], found.variance[u]), expected)


def mean_kl(pair: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> float:
    """Over the last dimension."""
    numbers = zip(*(values.tolist() for values in (*pair, *other)), strict=True)
    return sum(naive_kl(*own) for own in numbers) / K


@pytest.mark.parametrize("form", FORMS)
def test_permutation_loss_and_coherence(form: str) -> None:
    batch = make_batch(form, make_network(PCVE))
    first, second = pairs_of(0, len(batch)), pairs_of(2, len(batch))
    codes = fuse_targets(first)
    moved, apart, count = 0.0, 0.0, 0
    for i in range(B):
        seen = [u for u in range(M) if batch.observed[i, u]]
        for u in seen:
            for t in range(M):
                own = first.mean[u, i, t], first.variance[u, i, t]
                other = second.mean[u, i, t], second.variance[u, i, t]
                moved += mean_kl(own, other) / (M * len(seen) * B)
                apart += mean_kl((codes.mean[u, i], codes.variance[u, i]), own) / M
            count += 1
    assert float(permutation_loss(first, second, batch)) == pytest.approx(moved, rel=1e-9)
    found = target_coherence(first, codes, batch.observed)
    assert float(found) == pytest.approx(apart / count, rel=1e-9)
    assert float(permutation_loss(first, first, batch)) == pytest.approx(0.0, abs=1e-12)


def test_gradients_of_permutation_loss_and_coherence() -> None:
    batch = make_batch("packed fixed", make_network(PCVE), None, torch.tensor([3, 0, 5]))
    mean, variance = (values.requires_grad_() for values in pairs_of(0, len(batch)))
    sources = rotated_sources(batch.observed, torch.tensor([[2, 0, 1]]).expand(len(batch), M))

    def both(mean: Tensor, variance: Tensor) -> Tensor:
        pairs = Gaussians(mean, variance)
        turned = Gaussians(*(exchange(values, sources) for values in pairs))
        apart = target_coherence(turned, fuse_targets(turned), batch.observed)
        return permutation_loss(pairs, turned, batch) + apart

    assert torch.autograd.gradcheck(both, (mean, variance))


def test_contrast_between_views() -> None:
    codes, seen = normal(M, B, K), draw(B, M, seed=1) > 0.4
    seen[:, 2] = False
    seen[4, :] = True  # one sample alone has the last view: nothing to compare it with
    total, count = 0.0, 0
    for u in range(M):
        for v in range(u + 1, M):
            both = [i for i in range(B) if seen[i, u] and seen[i, v]]
            for i in both if len(both) > 1 else []:
                scores = [float(F.cosine_similarity(codes[u, i], codes[v, j], dim=0)) for j in both]
                total += math.log(sum(math.exp(s / 0.5) for s in scores))
                total -= scores[both.index(i)] / 0.5
                count += 1
    assert float(cross_view_contrast(codes, seen, 0.5)) == pytest.approx(total / count, rel=1e-7)
    assert float(cross_view_contrast(codes, torch.zeros_like(seen), 0.5)) == 0.0
    small = codes[:, :4].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: cross_view_contrast(z, seen[:4], 0.5), (small,))


def test_encoders_side_by_side_are_encoders_of_pairs() -> None:
    """The head is called once per pair, and its statistics move in the order of the calls."""
    network = make_network(replace(PCVE, norm_rows="all"))
    other = copy.deepcopy(network)
    batch = make_batch("dense", network)
    found = network.encode_batch(batch)
    for u in range(M):
        (linear,), (norm,) = other.encoders[u].linears, other.encoders[u].norms
        for t in range(M):
            own = slice(t * K, (t + 1) * K)
            features = F.linear(batch.views[u], linear.weight[own], linear.bias[own])
            scale = (None, None, norm.weight[own], norm.bias[own])
            features = F.gelu(F.batch_norm(features, *scale, training=True))
            mean, variance = other.head(other.shared(features)).chunk(2, dim=-1)
            rows = batch.observed[:, u]
            torch.testing.assert_close(found.mean[u, rows, t], mean[rows])
            torch.testing.assert_close(found.variance[u, rows, t], variance[rows])
    for a, b in zip(network.shared.buffers(), other.shared.buffers(), strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        other.load_state_dict(network.state_dict())
        one_by_one = [other.eval().encode_pairs(0, row) for row in batch.views[0].split(1)]
        torch.testing.assert_close(other.encode_pairs(0, batch.views[0]), torch.cat(one_by_one))


# ---------------------------------------------------------------------- TDLSR


def test_label_specific_scores_of_views() -> None:
    network = make_network(TDLSR).requires_grad_(False)
    codes, trust = normal(M, B, K), draw(B, M, seed=1)
    gate = torch.sigmoid(network.semantics(network.label_graph))
    found = network.classify(codes, trust)
    for i in range(B):
        for j in range(C):
            above, below = 0.0, 0.0
            for v in range(M):
                shared, specific = network.split(v, codes[v, i])
                own = network.classifiers[v]
                score = float(network.shared_classifier.weight[j] @ (gate[j] * shared))
                score += float(own.weight[j] @ (gate[j] * specific))
                score += float(network.shared_classifier.bias[j] + own.bias[j])
                weight = float(trust[i, v]) * math.exp(float(network.preference[v, j]))
                above, below = above + weight * score, below + weight
            expected = 1 / (1 + math.exp(-above / below))
            assert float(found[i, j]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_reconstruction_from_both_parts(form: str) -> None:
    """With frozen normalisation a decoder works row by row, so rows can be walked singly."""
    network = make_network(TDLSR).eval()
    batch = make_batch(form, network)
    sizes = batch.sizes
    parts = [(normal(n, K, seed=v), normal(n, K, seed=9 + v)) for v, n in enumerate(sizes)]
    total, count = 0.0, 0
    for v, dim in enumerate(DIMS):
        weight, samples = batch.row_weight_of(v), batch.samples_of(v)
        for row in range(sizes[v]):
            if weight[row] > 0:
                both = torch.cat([part[row] for part in parts[v]]).unsqueeze(0)
                rebuilt, truth = network.decoders[v](both)[0], draw(B, dim, seed=2 + v)
                gaps = (rebuilt - truth[samples[row]]).tolist()
                total, count = total + sum(gap**2 for gap in gaps) / dim, count + 1
    assert count == batch.observed.sum()
    found = network.reconstruction_loss(batch, parts)
    assert float(found.detach()) == pytest.approx(total / count, rel=1e-10)
    flat = [part.requires_grad_() for pair in parts for part in pair]
    network.train()

    def loss(*values: Tensor) -> Tensor:
        return network.reconstruction_loss(batch, list(zip(values[::2], values[1::2], strict=True)))

    assert torch.autograd.gradcheck(loss, flat, fast_mode=True)
