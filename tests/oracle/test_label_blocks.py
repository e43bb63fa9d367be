"""Losses by blocks of labels are those of all labels at once; correlations of some labels, too."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from small_batches import DIMS, B, C, make_batch, make_source
from viewgap.data import Labels, SparseLabels
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.nn.fusion import correlation, view_quality
from viewgap.training.batches.source import BatchSource

SIZES = {"hidden": (8,), "embedding": 8, "codebook_size": 5, "temperature": 0.3}
SWITCHES = (
    {},
    {"self_distillation": False},
    {"teacher": False},
    {"label_loss": "asymmetric"},
    {"distillation": "kl", "distillation_average": "pairs"},
    {"fusion": "mean"},
    {"correlation_labels": 2},
)


def make_network(settings: SCSDSettings, source: BatchSource) -> SCSDNetwork:
    network = SCSDNetwork(DIMS, C, settings, torch.Generator().manual_seed(0)).double()
    values = source.labels * source.label_mask
    observed = source.label_mask.numpy() > 0
    network.prepare(Labels(values.numpy().astype(np.uint8), observed, tuple("abcd")))
    return network


def losses(
    network: SCSDNetwork, size: int, batch: object
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    own = copy.deepcopy(network)
    own.settings = replace(own.settings, label_block=size)
    terms = own.loss_terms(batch)  # type: ignore[arg-type]
    torch.stack(list(terms.values())).sum().backward()
    values = torch.stack([value.detach() for value in terms.values()])
    return values, {k: p.grad for k, p in own.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("form", ["packed", "dense fixed"])
@pytest.mark.parametrize("profile", ["default", "paper", "equations"])
@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_blocks_give_the_losses_and_gradients_of_all_labels(
    form: str, profile: str, switch: dict[str, object]
) -> None:
    settings = replace(PROFILES[profile](C), **{**SIZES, **switch}, dropout=0, input_dropout=0)
    source = make_source(without_positive=[3])
    network = make_network(settings, source)
    batch = make_batch(form, source, layout=network.layout)
    expected, gradients = losses(network, 0, batch)
    for size in (1, 3):
        found, own = losses(network, size, batch)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
        assert own.keys() == gradients.keys()
        for name, gradient in own.items():
            torch.testing.assert_close(gradient, gradients[name], rtol=1e-9, atol=1e-12)


def test_most_frequent_labels_are_compared() -> None:
    source = make_source()
    labels = Labels(
        (source.labels * source.label_mask).numpy().astype(np.uint8),
        source.label_mask.numpy() > 0,
        tuple("abcd"),
    )
    settings = replace(PROFILES["paper"](C), **SIZES, correlation_labels=2)
    counts = labels.positive_counts()
    chosen = sorted(range(C), key=lambda j: (-counts[j], j))[:2]
    networks = []
    for own in (labels, SparseLabels.from_labels(labels)):
        network = SCSDNetwork(DIMS, C, settings, torch.Generator().manual_seed(0)).double()
        network.prepare(own)
        networks.append(network)
        assert network.compared_labels.tolist() == chosen
    assert torch.equal(networks[0].label_correlation, networks[1].label_correlation)
    positive = torch.from_numpy(labels.values[:, chosen].astype(float))
    target = correlation(positive.T @ positive, 1e-10)
    torch.testing.assert_close(networks[0].label_correlation, target, rtol=1e-6, atol=1e-7)
    batch = make_batch("dense", source, layout=networks[0].layout)
    predictions = torch.rand(len(DIMS), B, C, dtype=torch.float64)
    expected = view_quality(
        predictions[..., chosen],
        torch.ones(len(DIMS), dtype=torch.bool),
        networks[0].label_correlation,
    )
    torch.testing.assert_close(networks[0].batch_quality(batch, predictions), expected)
    everything = replace(settings, correlation_labels=C)
    assert SCSDNetwork(DIMS, C, everything, torch.Generator()).label_correlation.shape == (C, C)
