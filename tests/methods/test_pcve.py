"""PCVE: profiles, prediction by means or by draws, rotations, and hidden columns."""

from typing import Any

import numpy as np
import torch

import viewgap
from viewgap.data.labels import Labels
from viewgap.methods.pcve import PCVENetwork, PCVESettings
from viewgap.nn.dropout import ColumnMask

SMALL = {"embedding": 8, "hidden": (16,), "batch_size": 16, "device": "cpu", "random_state": 0}


def fit(small: Any, **settings: Any) -> viewgap.PCVE:
    return viewgap.PCVE(**(SMALL | {"max_epochs": 3} | settings)).fit(small.views, small.Y)


def make_network(**settings: Any) -> PCVENetwork:
    chosen = PCVESettings(**({"embedding": 8, "hidden": (16,)} | settings))
    return PCVENetwork((3, 5), 4, chosen, torch.Generator().manual_seed(0))


def test_every_pair_of_views_has_an_encoder() -> None:
    network = make_network()
    shapes = [tuple(next(iter(encoder.linears)).weight.shape) for encoder in network.encoders]
    assert shapes == [(2 * 8, 3), (2 * 8, 5)]


def test_rotations_are_kept_for_every_row_where_they_are_drawn_once() -> None:
    network = make_network(rotations="once")
    labels = Labels(np.zeros((7, 4), np.uint8), np.ones((7, 4), bool), tuple("abcd"))
    tables = []
    for _ in range(2):
        network.prepare(labels)
        tables.append(network.rotations.table)
    assert torch.equal(*tables)
    assert torch.equal(tables[0].sort(dim=1).values, torch.arange(2).expand(7, 2))
    network.end_training()
    assert network.rotations.table.numel() == 0
    assert not any("table" in name for name in network.state_dict())


def test_permuted_codes_count_after_the_warm_up() -> None:
    network = make_network(warm_up=2)
    plain, turned = torch.tensor(1.0), torch.tensor(3.0)
    found = []
    for _ in range(4):
        network.begin_epoch()
        found.append(float(network._both(plain, turned)))
    assert found == [1.0, 1.0, 2.0, 2.0]


def test_the_same_number_of_columns_is_hidden_in_every_row() -> None:
    x, mask = torch.ones(50, 11), ColumnMask(0.25)
    mask.generator = torch.Generator().manual_seed(0)
    kept = mask(x)
    assert torch.equal(kept.sum(dim=1), torch.full((50,), 9.0))  # int(0.25 * 11) are hidden
    assert not torch.equal(mask(x), kept)
    assert len({tuple(row) for row in kept.tolist()}) > 10
    for same in (mask(torch.ones(4, 3)), mask.eval()(x), ColumnMask(0.0)(x)):
        assert same.all()
