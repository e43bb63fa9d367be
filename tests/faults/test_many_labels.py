"""A label correlation that would not fit into memory is refused before it is made."""

import numpy as np
import pytest

import viewgap
from viewgap.errors import SettingError

NETWORKS = ("SCSD", "RANK", "SIP", "DRLS", "TDLSR", "AIMNet", "LMVCAT", "DICNet")
SOLVERS = ("IMvWL", "NAIM3L", "CDMM", "ELSMML")
COMPARING = {"fusion": "label_correlation", "n_networks": 1, "correlation_labels": 0}
SMALL = {"hidden": [8], "embedding": 8, "codebook_size": 8}


def data(n_labels: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    return {"a": rng.normal(size=(30, 4))}, (rng.random((30, n_labels)) < 0.2).astype(float)


def test_twenty_thousand_labels_are_refused_with_bytes_and_remedy() -> None:
    X, Y = data(20_000)
    with pytest.raises(SettingError, match=r"4\.5 GiB for 20000 labels.*correlation_labels=2048"):
        viewgap.SCSD(max_epochs=1, device="cpu", **COMPARING).fit(X, Y)


@pytest.mark.parametrize("name", [*NETWORKS, *SOLVERS])
def test_methods_that_compare_labels_refuse_forty_thousand(name: str) -> None:
    X, Y = data(40_000)
    with pytest.raises(SettingError, match=rf"{name} compares .* GiB for 40000 labels .*; \w+"):
        getattr(viewgap, name)(**(COMPARING if name == "SCSD" else {})).fit(X, Y)


def test_the_others_do_not() -> None:
    X, Y = data(8_000)
    for name in ("DDINet", "MTD"):
        model = getattr(viewgap, name)(max_epochs=1, wide=8, embedding=8, device="cpu").fit(X, Y)
        assert model.predict_proba(X).shape == (30, 8_000)


def test_thousands_of_labels_are_compared_by_the_most_frequent_ones() -> None:
    X, Y = data(5_000)
    model = viewgap.SCSD(max_epochs=1, device="cpu", fusion="label_correlation", **SMALL).fit(X, Y)
    settings, network = model.settings_, model.network_.networks[0]
    assert (settings.correlation_labels, settings.label_block) == (2048, 2048)
    assert (settings.n_networks, settings.cross_fit) == (1, False)
    assert network.label_correlation.shape == (2048, 2048)
    assert model.predict_proba(X).shape == (30, 5_000)


def test_mean_fusion_needs_no_matrix() -> None:
    X, Y = data(3_000)
    model = viewgap.SCSD(max_epochs=1, device="cpu", **SMALL).fit(X, Y)
    assert model.settings_.fusion == "mean"
    assert all(network.label_correlation.numel() == 0 for network in model.network_.networks)
    assert model.predict_proba(X).shape == (30, 3_000)
    assert model.view_weights_ == {"a": 1.0}
