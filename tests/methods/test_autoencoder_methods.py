"""DDINet, DICNet, MTD and RANK: whole losses against loops, and what each of them promises."""

from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap import methods
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.methods.mtd import FragmentMask
from viewgap.nn.memory_bank import MemoryBank
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.epoch_index import Capacity
from viewgap.training.batches.source import BatchSource, batches_of_epoch
from viewgap.training.fit_state import FitState
from viewgap.training.runtime import choose_runtime
from viewgap.training.steps.epoch import PlainSteps, ReplayedSteps, Steps, make_optimiser

N, DIMS, C = 21, (5, 3, 6), 4
NAMES = ("ddinet", "dicnet", "mtd", "rank")
SMALL = {"wide": 7, "embedding": 6, "batch_size": 8}
PROFILES = ("default", "paper")


def make_data() -> tuple[ViewSet, Labels]:
    rng = np.random.default_rng(0)
    observed = rng.random((N, 3)) < 0.6
    observed[:, 0] |= ~observed.any(axis=1)
    views = ViewSet({f"v{d}": rng.normal(size=(N, d)) for d in DIMS}, observed)
    Y = (rng.random((N, C)) < 0.5).astype(np.uint8)
    return views, Labels(Y, rng.random(Y.shape) < 0.7, tuple("abcd"))


def make_network(estimator: Any, labels: Labels) -> tuple[Any, Any]:
    """Settings and network of an estimator, in double precision and in training."""
    settings, generator = estimator._resolve(C), torch.Generator().manual_seed(0)
    network = type(estimator).network_type(DIMS, C, settings, generator)
    network.prepare(labels)
    return settings, network.double().train()


def make_state(name: str, profile: str) -> tuple[Any, FitState, BatchSource]:
    views, labels = make_data()
    quiet = {"fragment": 0.0} if name == "mtd" else {}
    settings, network = make_network(methods.get(name)(profile=profile, **SMALL, **quiet), labels)
    optimiser = make_optimiser(network, settings)
    state = FitState(network, optimiser, torch.Generator().manual_seed(1), torch.Generator())
    source = BatchSource(views, labels, None, choose_runtime("cpu", "float64"))
    return settings, state, source


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", NAMES)
def test_fixed_shapes_train_the_same_network(name: str, profile: str) -> None:
    results = []
    for kind in (PlainSteps, ReplayedSteps):
        settings, state, source = make_state(name, profile)
        steps: Steps = kind(state, source, settings)
        epochs = []
        for _ in range(3):
            state.network.begin_epoch()
            terms = steps.run([batches_of_epoch(N, 8, state.order if settings.shuffle else None)])
            epochs.append({k: float(v) for k, v in terms.items()})
        results.append((state.network, epochs))
    (plain, expected), (fixed, found) = results
    for a, b in zip(expected, found, strict=True):
        assert b == pytest.approx(a, rel=1e-9, abs=1e-12)
    for (key, a), b in zip(plain.named_parameters(), fixed.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-10, msg=key)


def first_batch(source: BatchSource, network: Any, capacity: Capacity | None = None) -> Batch:
    epoch = source.index([torch.arange(8), torch.arange(N)], network.layout, None, capacity)
    return source.assemble(epoch.batch(0))


def dense_codes(network: Any, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
    codes = network.encode(batch)
    return batch.stack(torch.cat(codes)), codes


@pytest.mark.parametrize("profile", PROFILES)
def test_ddinet_loss_by_loops(profile: str) -> None:
    settings, state, source = make_state("ddinet", profile)
    network = state.network
    batch = first_batch(source, network)
    codes, _ = dense_codes(network, batch)
    views, labels = make_data()
    found = {k: float(v.detach()) for k, v in network.loss_terms(batch).items()}
    entropy = error = 0.0
    for i in range(8):
        seen = [v for v in range(3) if views.observed[i, v]]
        fused = sum(codes[v, i] for v in seen) / len(seen)
        answer = torch.sigmoid(network.classifier(torch.relu(fused)))
        for j in range(C):
            if labels.observed[i, j]:
                p = answer[j] if labels.values[i, j] else 1 - answer[j]
                entropy -= float(torch.log(p + 1e-10).detach()) / (8 * C)
        for v in seen:
            rebuilt = network.decoders[v](fused).detach().numpy()
            row = views.rows(views.names[v], dtype=np.float64)[i]
            error += float(np.square(rebuilt - row).mean()) / 8
    assert found["classification"] == pytest.approx(entropy, rel=1e-9)
    assert found["reconstruction"] == pytest.approx(settings.alpha * error, rel=1e-9)


@pytest.mark.parametrize("name", ["dicnet", "rank"])
def test_own_codes_are_decoded(name: str) -> None:
    settings, state, source = make_state(name, "paper")
    network = state.network
    batch = first_batch(source, network)
    network.begin_epoch()
    codes, _ = dense_codes(network, batch)
    views, _ = make_data()
    error = 0.0
    for i in range(8):
        for v in range(3):
            if views.observed[i, v]:
                rebuilt = network.decoders[v](codes[v, i]).detach().numpy()
                row = views.rows(views.names[v], dtype=np.float64)[i]
                error += float(np.square(rebuilt - row).mean()) / 8
    found = float(network.loss_terms(batch)["reconstruction"].detach())
    assert found == pytest.approx(settings.gamma * error, rel=1e-9)


def test_mtd_fuses_by_the_private_channel() -> None:
    _, state, source = make_state("mtd", "default")
    network = state.network.eval()
    batch = first_batch(source, network)
    views, _ = make_data()
    found = network.predict_batch(batch)
    for i in range(8):
        seen = [v for v in range(3) if views.observed[i, v]]
        rows = [torch.from_numpy(views.rows(views.names[v], [i], np.float64)) for v in seen]
        shared = sum(network.shared[v](x) for v, x in zip(seen, rows, strict=True)) / len(seen)
        private = sum(network.private[v](x) for v, x in zip(seen, rows, strict=True)) / len(seen)
        fused = torch.relu(shared * torch.sigmoid(private))
        expected = torch.sigmoid(network.classifier(fused))[0]
        torch.testing.assert_close(found[i], expected)


def test_mtd_rebuilds_what_its_setting_says() -> None:
    """With everything hidden but two columns, the masked target is almost zero."""
    errors = {}
    for reconstruct in ("clean", "masked"):
        views, labels = make_data()
        estimator = viewgap.MTD(fragment=0.6, reconstruct=reconstruct, wide=7, embedding=6)
        _, network = make_network(estimator, labels)
        network.use_noise(torch.Generator().manual_seed(0))
        for decoder in network.decoders:
            torch.nn.init.zeros_(decoder.output.weight)
            torch.nn.init.zeros_(decoder.output.bias)
        source = BatchSource(views, labels, None, choose_runtime("cpu", "float64"))
        errors[reconstruct] = float(
            network.loss_terms(first_batch(source, network))["reconstruction"]
        )
    assert errors["masked"] < 0.8 * errors["clean"]


def test_fragment_mask_hides_one_run_and_never_the_last_two_columns() -> None:
    mask = FragmentMask(0.25)
    mask.generator = torch.Generator().manual_seed(0)
    rows = mask(torch.ones(2000, 16))
    assert torch.equal(rows.sum(dim=1), torch.full((2000,), 12.0))
    edges = (rows[:, 1:] != rows[:, :-1]).sum(dim=1)
    assert int(edges.max()) == 2
    assert torch.equal(rows[:, -2:], torch.ones(2000, 2))
    assert (rows[:, :14] == 0).any(dim=0).all()
    mask.eval()
    assert torch.equal(mask(rows), rows)


# ---------------------------------------------------------------------- RANK


def test_rank_terms_grow_with_the_epochs() -> None:
    settings, state, source = make_state("rank", "default")
    network = state.network
    batch = first_batch(source, network)
    network.begin_epoch()
    first = network.loss_terms(batch)
    assert float(first["agreement"]) == 0.0
    assert float(first["labels"]) == 0.0
    network.begin_epoch()
    second = network.loss_terms(batch)
    assert float(second["labels"]) > 0.0
    network.begin_epoch()
    third = network.loss_terms(batch)
    ratio = float(third["agreement"]) / float(second["agreement"])
    assert ratio == pytest.approx((1 - settings.beta**2) / (1 - settings.beta), rel=1e-9)


def test_memory_bank_keeps_samples_by_their_row() -> None:
    bank = MemoryBank(5, views=2, size=3, labels=2)
    codes = torch.arange(12.0).view(2, 2, 3)
    rows, real = torch.tensor([3, 0]), torch.tensor([1.0, 0.0])
    seen, nothing = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.zeros(2, 2)
    labels = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    bank.write(rows, real, codes, seen, labels, torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert torch.equal(bank.codes[:, 3], codes[:, 0])
    assert torch.equal(bank.codes[:, 0], nothing[:, :1].expand(2, 3))
    assert bank.observed[[0, 1, 2, 4, 5]].sum() == 0
    assert bank.label_mask[5].sum() == 0


def test_rank_forgets_its_memory_after_training() -> None:
    views, labels = make_data()
    model = viewgap.RANK(**SMALL, max_epochs=2, random_state=0, device="cpu")
    model.fit(views, labels.as_float())
    assert not [name for name in model._get_state().arrays if "bank" in name]


# ---------------------------------------------------------------------- unlabelled samples, noise


@pytest.mark.parametrize("name", ["ddinet", "dicnet"])
def test_unlabelled_samples_take_part(name: str) -> None:
    views, labels = make_data()
    Y = labels.as_float()
    settings = SMALL | {"max_epochs": 3, "random_state": 0, "device": "cpu"}
    plain = methods.get(name)(**settings).fit(views, Y, validation=(views, Y))
    more = methods.get(name)(**settings).fit(
        views, Y, validation=(views, Y), X_unlabeled=views[:10]
    )
    assert more.n_unlabeled_ == 10
    assert not np.allclose(more.predict_proba(views), plain.predict_proba(views))
    # They are what rows without any observed label are.
    longer = np.vstack([Y, np.full((10, C), np.nan)])
    same = methods.get(name)(**settings).fit(
        views.joined(views[:10]), longer, validation=(views, Y)
    )
    np.testing.assert_array_equal(same.predict_proba(views), more.predict_proba(views))


def test_unlabelled_samples_are_never_held_out() -> None:
    views, labels = make_data()
    everything = views.joined(views)
    model = viewgap.DDINet(**SMALL, max_epochs=1, random_state=0, device="cpu")
    model.n_unlabeled_ = N
    settings = model._resolve(labels.n_labels)
    rows = labels.with_unobserved_rows(N)
    _, kept, held = model._hold_out(everything, rows, None, settings, seed=0)
    assert held.validation is not None
    assert held.validation[1].observed.any(axis=1).all()
    assert len(kept) + len(held.validation[1]) == 2 * N


def test_inductive_methods_refuse_unlabelled_samples() -> None:
    views, labels = make_data()
    with pytest.raises(SettingError, match="RANK does not learn from unlabelled"):
        viewgap.RANK(**SMALL).fit(views, labels.as_float(), X_unlabeled=views)


def test_noise_fills_missing_rows_the_same_way_whatever_is_read() -> None:
    views, labels = make_data()
    runtime = choose_runtime("cpu", "float64")
    source = BatchSource(views, labels, None, runtime, noise_seed=3)
    whole = source.batch(torch.arange(N)).views
    part = source.batch(torch.tensor([4, 2, 9])).views
    gone = ~views.observed
    for v in range(3):
        assert torch.equal(whole[v][[4, 2, 9]], part[v])
        assert (whole[v][gone[:, v]] != 0).all()
        seen = torch.from_numpy(views.rows(views.names[v], dtype=np.float64))[~gone[:, v]]
        assert torch.equal(whole[v][~gone[:, v]], seen)


def test_released_supervised_form_of_dicnet_uses_noise() -> None:
    views, labels = make_data()
    made = [
        viewgap.DICNet(profile="paper", fill=fill, **SMALL, max_epochs=2, random_state=0)
        .fit(views, labels.as_float())
        .predict_proba(views)
        for fill in ("zero", "noise")
    ]
    assert not np.allclose(*made)


def test_sparse_views_are_joined_as_sparse_ones() -> None:
    from scipy import sparse

    a = ViewSet({"x": sparse.csr_array(np.eye(3)), "y": np.ones((3, 1))})
    joined = a.joined(a[[1]])
    assert joined.is_sparse("x")
    np.testing.assert_array_equal(joined.rows("x"), np.eye(3)[[0, 1, 2, 1]])
