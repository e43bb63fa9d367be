"""The figures are of what ships: `SCSD()` and `SCSD(profile="paper")` with nothing changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks._step import LibraryStep
from benchmarks.record import Context

from benchmarks import data, figures_step, floor
from viewgap import SCSD
from viewgap.training.committee import Committee

pytestmark = pytest.mark.slow

SHIPPED = {"default": SCSD(), "paper": SCSD(profile="paper")}
# How long and where a model is trained; not what it is.
AROUND = {"device", "random_state", "max_epochs", "validation_fraction"}
MANY_LABELS = data.Shape(40, (6, 5), 120)
FEW_LABELS = data.Shape(60, (6, 5), 4)


def what_it_is(model: SCSD) -> dict[str, Any]:
    return {name: value for name, value in model.get_params().items() if name not in AROUND}


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("shape", [data.COREL5K, data.MIRFLICKR], ids=["corel5k", "mirflickr"])
def test_a_measured_model_sets_no_parameter(name: str, shape: data.Shape) -> None:
    expected = what_it_is(SHIPPED[name])
    assert what_it_is(data.make_model(name, "cpu", shape, max_epochs=1)) == expected
    assert what_it_is(figures_step.whole(name, Context("cpu"), shape)) == expected


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("shape", [MANY_LABELS, FEW_LABELS], ids=["many_labels", "few_labels"])
def test_a_measured_step_is_that_of_a_fit(name: str, shape: data.Shape) -> None:
    views, Y = data.random_data(shape)
    step = LibraryStep(data.make_model(name, "cpu", shape), views, Y)
    profile = SHIPPED[name].profile
    fitted = SCSD(profile=profile, random_state=0, max_epochs=1, patience=1, device="cpu")
    fitted.fit(views, Y)
    around = {"max_epochs": 1, "patience": 1}
    assert vars(step.settings) | around == vars(fitted.settings_)
    assert type(step.network) is type(fitted.network_)
    shapes = [
        {name: tensor.shape for name, tensor in network.state_dict().items()}
        for network in (step.network, fitted.network_)
    ]
    assert shapes[0] == shapes[1]


def test_the_default_is_five_cross_fitted_networks_on_prepared_features() -> None:
    views, Y = data.random_data(FEW_LABELS)
    step = LibraryStep(figures_step.whole("default", Context("cpu"), FEW_LABELS), views, Y)
    assert isinstance(step.network, Committee)
    assert len(step.network.networks) == step.settings.n_networks == 5
    assert (step.settings.features, step.settings.fusion) == ("auto", "mean")
    rows = [torch.cat(own) for own in step.batches()]
    assert [len(own) for own in rows] == [48] * 5  # each leaves out 12 of the 60 rows
    assert (torch.bincount(torch.cat(rows)) == 4).all()
    before = step.weights()
    step()
    assert any(not torch.equal(before[name], now) for name, now in step.weights().items())


def test_the_bare_network_does_not_follow_the_default() -> None:
    views, Y = data.random_data(FEW_LABELS)
    step = LibraryStep(figures_step.whole("bare_network", Context("cpu"), FEW_LABELS), views, Y)
    assert (step.settings.decoder, step.settings.pairs) == ("mirrored", "all")
    assert [len(rows) for own in step.batches() for rows in own] == [60]


def test_the_floor_is_of_the_settings_at_corel5k_shapes() -> None:
    default = floor.settings_of("default")
    assert (default.batch_size, default.n_networks) == (256, 5)
    assert (default.decoder, default.pairs) == ("linear", "sampled")
    assert floor.settings_of("paper") == SHIPPED["paper"]._resolve(260)
