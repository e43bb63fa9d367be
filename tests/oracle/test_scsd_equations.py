"""`profile="equations"` against the text of the paper: every equation by loops over plain numbers.

Nothing of the library computes here but the encoders, decoders and classifiers, one row at a time.
"""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import small_batches
from small_batches import DIMS, B, C, assert_finite, draw, make_source, normal
from viewgap.data.labels import Labels
from viewgap.methods.scsd import network as scsd_network
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.nn import codebook, fusion
from viewgap.nn.codebook import SharedCodebook
from viewgap.nn.losses import asymmetric_entries, bce_entries, teacher_bce_rows, teacher_kl_rows
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource

SIZES = {"hidden": (8,), "embedding": 8, "codebook_size": 5}
PRINTED = replace(PROFILES["equations"](C), **SIZES, temperature=0.3, distill_weight=0.3)
RELEASED = replace(PROFILES["paper"](C), **SIZES, temperature=0.3, distill_weight=0.3)
SWITCHES = [
    {name: getattr(PRINTED, name)}
    for name in vars(PRINTED)
    if getattr(PRINTED, name) != getattr(RELEASED, name)
]
VIEWS = range(len(DIMS))
Numbers = list[float]


def make_network(settings: SCSDSettings, labels: Tensor) -> SCSDNetwork:
    """A network whose statistics and codes are any numbers, in evaluation: row by row."""
    network = SCSDNetwork(DIMS, C, settings, torch.Generator().manual_seed(0)).double().eval()
    observed = np.ones(labels.shape, dtype=np.bool_)
    network.prepare(Labels(labels.numpy().astype(np.uint8), observed, tuple("abcd")))
    # `prepare` computes in float32: the comparison needs the digits of the others.
    if settings.fusion != "mean":
        exact = fusion.label_correlation(labels, settings.correlation_diagonal)
        network.label_correlation.copy_(exact)
    with torch.no_grad():
        running = [own for name, own in network.named_buffers() if "running" in name]
        for number, buffer in enumerate(running):
            buffer.copy_(draw(*buffer.shape, seed=number) + 0.5)
        network.codebook.codes.copy_(normal(5, 4, seed=3))
    return network


def make_problem(seed: int) -> tuple[BatchSource, Tensor]:
    observed = draw(B, 3, seed=100 + seed) > 0.5
    observed[:, seed % 3] |= ~observed.any(dim=1)
    return make_source(observed, draw(B, C, seed=200 + seed) > 0.4), observed


def make_batch(settings: SCSDSettings, source: BatchSource, form: str) -> Batch:
    layout = Layout("dense", settings.norm_rows, "cross")
    return small_batches.make_batch(form, source, None, layout)


# ------------------------------------------------------------------ the text, in loops


def unit(vector: Numbers) -> Numbers:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def squared(a: Numbers, b: Numbers) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def quantise(code: Numbers, codes: list[Numbers]) -> tuple[Numbers, float]:
    """Eq. 1 and the value of Eq. 3: its two terms differ in their gradients only."""
    quantised: Numbers = []
    loss = 0.0
    for start in range(0, len(code), 4):
        segment = code[start : start + 4]
        distances = [squared(unit(segment), unit(own)) for own in codes]
        nearest = distances.index(min(distances))
        quantised += codes[nearest]
        loss += 2 * distances[nearest]
    return quantised, loss


def correlation(rows: list[Numbers]) -> list[Numbers]:
    """Eq. 4 or 5, then symmetrised, then rows divided by their sums; 0 / 0 is 0."""
    pairs = list(product(range(C), repeat=2))
    s = {(i, j): sum(r[i] * r[j] for r in rows) for i, j in pairs}
    s = {(i, j): s[i, j] / (s[i, i] + 1e-10) for i, j in pairs}
    s = {(i, j): (s[i, j] + s[j, i]) / 2 for i, j in pairs}
    sums = [sum(s[i, k] for k in range(C)) or 1.0 for i in range(C)]
    return [[s[i, j] / sums[i] for j in range(C)] for i in range(C)]


def bce(p: float, y: float) -> float:
    return -(y * math.log(p) + (1 - y) * math.log(1 - p))


def kl(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def printed_terms(
    network: SCSDNetwork, x: list[Tensor], W: Tensor, Y: Tensor, G: Tensor
) -> dict[str, float]:
    """All terms of Eq. 10."""
    alpha, share, tau = 0.1, 0.3, 0.3
    codes = network.codebook.codes.tolist()
    P: dict[tuple[int, int], Numbers] = {}
    rec = vq = 0.0
    pairs = [(i, v) for i in range(B) for v in VIEWS if W[i, v]]
    triples = [(i, j, v) for i, v in pairs for j in VIEWS if W[i, j]]
    quantised = {}
    with torch.no_grad():
        for i, v in pairs:
            code = network.encoders[v](x[v][i : i + 1])[0].tolist()
            quantised[i, v], loss = quantise(code, codes)
            vq += loss / len(pairs)
            row = torch.tensor([quantised[i, v]], dtype=torch.float64)
            scores = network.classifiers[v](row)[0].tolist()
            P[i, v] = [1 / (1 + math.exp(-s)) for s in scores]
        for i, j, v in triples:
            row = torch.tensor([quantised[i, v]], dtype=torch.float64)
            decoded = network.decoders[j](row)[0].tolist()
            rec += squared(decoded, x[j][i].tolist()) / len(triples)  # Eq. 2
    target = correlation(Y.tolist())
    quality = {}
    for v in VIEWS:
        found = correlation([P[i, v] for i in range(B) if W[i, v]])
        norm = sum(squared(a, b) for a, b in zip(found, target, strict=True))
        quality[v] = -math.sqrt(norm)  # Eq. 6
    fused = []
    for i in range(B):
        raw = {v: math.exp(quality[v] / tau) for v in VIEWS if W[i, v]}
        weights = {v: own / sum(raw.values()) for v, own in raw.items()}
        fused.append([sum(w * P[i, v][j] for v, w in weights.items()) for j in range(C)])  # Eq. 7
    known = [(i, j) for i in range(B) for j in range(C) if G[i, j]]
    L_c = sum(bce(fused[i][j], float(Y[i, j])) for i, j in known) / len(known)  # Eq. 8
    L_dis = 0.0
    for i, v in pairs:  # Eq. 9
        teacher = sum(kl(fused[i][j], P[i, v][j]) for j in range(C))
        mine = [bce(P[i, v][j], float(Y[i, j])) for j in range(C) if G[i, j]]
        supervised = sum(mine) / len(mine) if mine else 0.0
        L_dis += (share * teacher + (1 - share) * supervised) / len(pairs)
    return {
        "classification": L_c,
        "distillation": L_dis,
        "reconstruction": alpha * rec,
        "quantisation": vq,
    }


@pytest.mark.parametrize("form", ["dense", "packed", "packed fixed"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_term_is_what_the_text_says(seed: int, form: str) -> None:
    source, observed = make_problem(seed)
    Y, G = source.labels, source.label_mask
    network = make_network(PRINTED, Y)
    with torch.no_grad():
        found = network.loss_terms(make_batch(PRINTED, source, form))
    x = [draw(B, d, seed=2 + v) for v, d in enumerate(DIMS)]
    expected = printed_terms(network, x, observed, Y, G)
    assert set(found) == set(expected)
    for name, value in expected.items():
        # The library adds 1e-9 to sums of rows, against labels without any positive.
        assert float(found[name]) == pytest.approx(value, rel=1e-7), name


def test_a_sample_without_observed_labels_learns_from_the_teacher_alone() -> None:
    source, observed = make_problem(0)
    seen = torch.ones(B, C, dtype=torch.bool)
    seen[0] = False
    source = make_source(observed, seen)
    network = make_network(PRINTED, source.labels)
    with torch.no_grad():
        found = network.loss_terms(make_batch(PRINTED, source, "packed"))
    x = [draw(B, d, seed=2 + v) for v, d in enumerate(DIMS)]
    expected = printed_terms(network, x, observed, source.labels, source.label_mask)
    assert float(found["distillation"]) == pytest.approx(expected["distillation"], rel=1e-7)


def test_the_profile_differs_from_the_released_form_by_its_switches_only() -> None:
    names = {name for switch in SWITCHES for name in switch}
    assert names == {
        "codebook_learning",
        "code_length",
        "quantisation_reduction",
        "reconstruction_reduction",
        "reconstruction_average",
        "correlation_diagonal",
        "log_epsilon",
        "distillation",
        "distillation_average",
        "max_grad_norm",
    }


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: next(iter(switch)))
def test_a_switch_changes_its_own_term_only(switch: dict[str, object]) -> None:
    source, _ = make_problem(0)
    terms = []
    for settings in (RELEASED, replace(RELEASED, **switch)):
        network = make_network(settings, source.labels)
        with torch.no_grad():
            terms.append(network.loss_terms(make_batch(settings, source, "packed")))
    changed = {name for name in terms[0] if not torch.equal(terms[0][name], terms[1][name])}
    whole = {"classification", "distillation", "reconstruction"}
    expected = {
        "codebook_learning": {"quantisation"},
        "code_length": whole,
        "quantisation_reduction": {"quantisation"},
        "reconstruction_reduction": {"reconstruction"},
        "reconstruction_average": {"reconstruction"},
        "correlation_diagonal": {"classification", "distillation"},
        "log_epsilon": {"classification", "distillation"},
        "distillation": {"distillation"},
        "distillation_average": {"distillation"},
        "max_grad_norm": set(),
    }
    assert changed == expected[next(iter(switch))]


@pytest.mark.parametrize("form", ["dense", "packed", "packed fixed"])
def test_edges(form: str) -> None:
    """A view nobody has, one sample alone, no label at all."""
    observed = torch.tensor([[True, False, True]]).expand(B, 3).clone()
    for seen in (None, torch.zeros(B, C, dtype=torch.bool)):
        for rows in (None, torch.tensor([3])):
            network = SCSDNetwork(DIMS, C, PRINTED, torch.Generator().manual_seed(0)).double()
            source = make_source(observed, seen)
            assert_finite(network, small_batches.make_batch(form, source, rows))


# ------------------------------------------------------------------ gradients


def make_book(learning: str = "gradient", length: str = "free") -> SharedCodebook:
    generator = torch.Generator().manual_seed(0)
    book = SharedCodebook(5, 4, generator, 0.9, learning, length, "sum").double()
    book.codes.data.copy_(normal(5, 4, seed=3))
    return book


def test_gradients_of_the_codebook() -> None:
    """Eq. 3 pulls codes by its first term and segments by its second; the rest passes straight."""
    book, x = make_book().eval(), normal(6, 8, seed=1).requires_grad_()
    quantised = book(x)
    upstream = normal(6, 8, seed=2)
    (straight,) = torch.autograd.grad((quantised.vectors * upstream).sum(), x, retain_graph=True)
    assert torch.equal(straight, upstream)
    chosen = book.codes.detach()[quantised.indices].reshape(6, 8)
    assert torch.equal(quantised.vectors.detach(), chosen)
    found = torch.autograd.grad(quantised.loss, (x, book.codes))

    total = torch.zeros((), dtype=torch.float64)
    for i, t in product(range(6), range(2)):
        z = F.normalize(x[i, 4 * t : 4 * t + 4], dim=0)
        e = F.normalize(book.codes[int(quantised.indices[i, t])], dim=0)
        total = total + (z.detach() - e).square().sum() + (z - e.detach()).square().sum()
    expected = torch.autograd.grad(total / 6, (x, book.codes))
    for mine, its in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-10, atol=1e-12)


def test_codes_of_free_length_start_and_move_as_plain_means() -> None:
    book, x = make_book("ema").train(), normal(40, 8, seed=5)
    quantised = book(x)  # starts by k-means
    points = x.reshape(-1, 4)
    nearest = torch.cdist(points, book.codes).argmin(dim=1)
    again = torch.stack([points[nearest == j].mean(dim=0) for j in range(5)])
    assert float((again - book.codes).norm() / book.codes.norm()) < 0.5  # ten iterations
    before, indices = book.codes.clone(), quantised.indices.flatten()
    book.learn(quantised)
    for j in range(5):
        mine = points[indices == j]
        expected = 0.9 * before[j] + 0.1 * mine.mean(dim=0) if len(mine) else before[j]
        torch.testing.assert_close(book.codes[j], expected, rtol=1e-10, atol=1e-12)


def test_rows_are_quantised_alike_in_prediction() -> None:
    book, x = make_book().eval(), normal(6, 8, seed=1)
    rows = book.quantise(x, 4)
    assert torch.equal(rows[:4], book(x).vectors.detach()[:4])
    assert (rows[4:] == 0).all()


def test_gradcheck_of_the_prediction_losses() -> None:
    source, observed = make_problem(1)
    batch = make_batch(PRINTED, source, "dense")
    network = make_network(PRINTED, source.labels)
    seen = observed.T.unsqueeze(-1)
    p = draw(3, B, C, seed=70).clamp(0.05, 0.95).requires_grad_()

    def fused(predictions: Tensor) -> Tensor:
        quality = network.batch_quality(batch, predictions * seen)
        return network.fuse(predictions * seen, batch.observed, quality)

    def distilled(predictions: Tensor) -> Tensor:
        return network.distillation_loss(batch, predictions * seen, draw(B, C, seed=77))

    assert torch.autograd.gradcheck(fused, (p,))
    assert torch.autograd.gradcheck(distilled, (p,))
    assert torch.autograd.gradcheck(lambda t: bce_entries(t, batch.labels, 0.0), (p[0],))


def test_gradcheck_of_the_reconstruction() -> None:
    source, _ = make_problem(1)
    batch = make_batch(PRINTED, source, "packed")
    network = make_network(PRINTED, source.labels)
    codes = draw(sum(batch.sizes), 8, seed=80).requires_grad_()
    target = batch.targets[2]
    assert torch.autograd.gradcheck(lambda z: network.decoding_error(2, target, z), (codes,))


# ------------------------------------------------------------------ losses of labels


def test_asymmetric_loss() -> None:
    p = torch.cat([draw(B, C, seed=30), torch.tensor([[0.0, 1.0, 0.03, 0.5]])]).double()
    y = (draw(B + 1, C, seed=31) > 0.5).double()
    q = p.clone().requires_grad_()
    found = asymmetric_entries(q, y)
    found.sum().backward()
    for i, j in product(range(B + 1), range(C)):
        own = float(p[i, j])
        if y[i, j]:
            expected = -(1 - own) * math.log(max(own, 1e-8))
            slope = -(1 - own) / own if own > 1e-8 else 0.0
        else:
            shifted = max(own - 0.05, 0.0)
            expected = -(shifted**4) * math.log(1 - shifted)
            slope = shifted**4 / (1 - shifted)  # the focusing weight has none of its own
        assert float(found[i, j].detach()) == pytest.approx(expected, abs=1e-12)
        assert float(q.grad[i, j]) == pytest.approx(slope, abs=1e-12)


def test_asymmetric_loss_takes_the_place_of_cross_entropy() -> None:
    source, _ = make_problem(0)
    settings = replace(RELEASED, label_loss="asymmetric", fusion="mean", teacher=False)
    network, batch = make_network(settings, source.labels), make_batch(settings, source, "dense")
    with torch.no_grad():
        P = network.predict_views_of(batch)
        found = network.loss_terms(batch)
    W = batch.observed.T.double()
    mean = P.sum(dim=0) / W.sum(dim=0).unsqueeze(1)
    Y, G = source.labels, source.label_mask
    fused = (asymmetric_entries(mean, Y) * G).sum() / G.sum()
    torch.testing.assert_close(found["classification"], fused)
    views = [
        (asymmetric_entries(P[v], Y) * G * W[v, :, None]).sum() / (G * W[v, :, None]).sum()
        for v in VIEWS
    ]
    torch.testing.assert_close(found["distillation"], 0.7 * torch.stack(views).sum())


def test_both_readings_of_the_distillation_have_the_same_gradient() -> None:
    teacher, gradients = draw(B, C, seed=41), []
    teacher[0, :2] = torch.tensor([0.0, 1.0])  # no entropy, no NaN
    for function in (teacher_kl_rows, teacher_bce_rows):
        student = draw(B, C, seed=40).requires_grad_()
        function(student, teacher).sum().backward()
        gradients.append(student.grad)
    assert torch.equal(*gradients)
    found = teacher_kl_rows(draw(B, C, seed=40), teacher)
    for i in range(1, B):
        rows = zip(teacher[i].tolist(), draw(B, C, seed=40)[i].tolist(), strict=True)
        assert float(found[i]) == pytest.approx(sum(kl(p, q) for p, q in rows), abs=1e-12)
    assert torch.isfinite(found).all()
    assert (teacher_kl_rows(teacher, teacher) == 0).all()


# ------------------------------------------------------------------ kernels


def test_what_the_kernels_do_not_compute_is_left_to_plain_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def kernels(x: Tensor, name: str) -> None:
        asked.append(name)

    for module in (scsd_network, fusion, codebook):
        monkeypatch.setattr(module, "kernels_for", kernels)
    source, _ = make_problem(0)
    # A look-up of the nearest codes is the same for all; it is the second question of a codebook.
    for settings, expected in ((RELEASED, (2, 2)), (PRINTED, (0, 1))):
        network = make_network(settings, source.labels)
        asked.clear()
        network.loss_terms(make_batch(settings, source, "packed"))
        assert (asked.count("fusion"), asked.count("codebook")) == expected
    for switch in ({"label_loss": "asymmetric"}, {"log_epsilon": 1e-6}, {"distillation": "kl"}):
        assert not replace(RELEASED, **switch).has_released_losses
