"""`nearest_samples` against distances computed by loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.errors import SettingError, ViewError
from viewgap.explanation import nearest_samples, neighbours


@pytest.fixture(scope="module")
def network(data: Any) -> Any:
    model = viewgap.SCSD(
        max_epochs=2, n_networks=1, hidden=(16,), embedding=8, codebook_size=8, device="cpu",
        random_state=0, on_empty="prior",
    )  # fmt: skip
    return model.fit(data.views[:80], data.labels[:80])


def naive(network: Any, views: Any, others: Any, row: int, left_out: int | None) -> list[float]:
    own, codes = network.transform(views)[row], network.transform(others)
    distances = []
    for place, code in enumerate(codes):
        if place != left_out:
            distances.append(float(np.sqrt(np.sum((own.astype(float) - code.astype(float)) ** 2))))
    return sorted(distances)


def test_the_nearest_are_found_in_their_order(
    data: Any, network: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, others = samples[1:], data.views[:80]
    found = nearest_samples(network, views, others, n=4)
    assert found["rank"].tolist() == [1, 2, 3, 4] * 7
    assert found["sample"].tolist() == np.repeat(views.sample_ids, 4).tolist()
    for row in range(7):
        lines = found[4 * row : 4 * row + 4]
        expected = naive(network, views, others, row, None)[:4]
        np.testing.assert_allclose(lines["distance"], expected, atol=1e-6)
        assert (lines["shared_views"] == views.observed[row].sum()).all()
    assert found["neighbour"].isin(others.sample_ids).all()
    monkeypatch.setattr(neighbours, "BLOCK_BYTES", 1)
    again = nearest_samples(network, views, others, n=4)
    np.testing.assert_allclose(again["distance"], found["distance"], atol=1e-9)


def test_a_sample_is_not_its_own_neighbour_where_ids_tell(data: Any, network: Any) -> None:
    values = {name: data.views.rows(name)[:30] for name in data.views.names}
    names = [f"patient {i}" for i in range(30)]
    given = viewgap.ViewSet(values, sample_ids=names)
    found = nearest_samples(network, given[[3, 7]], given, n=29)
    assert not (found["sample"] == found["neighbour"]).any()
    np.testing.assert_allclose(
        found["distance"][:29], naive(network, given, given, 3, 3), atol=1e-6
    )
    counted = nearest_samples(network, viewgap.ViewSet(values)[[3]], viewgap.ViewSet(values), n=1)
    assert counted["distance"].tolist() == [0]  # numbers alone do not say that it is the same
    with pytest.raises(SettingError, match="only 30 reference"):
        nearest_samples(network, given[[3]], given, n=30)


def test_reference_samples_without_views_are_left_out(data: Any, network: Any) -> None:
    mask = np.ones((10, 3), dtype=bool)
    mask[:6] = False
    found = nearest_samples(network, data.views[[100]], data.views[:10].with_observed(mask), n=4)
    assert sorted(found["neighbour"]) == [6, 7, 8, 9]


def test_what_cannot_be_near_is_refused(data: Any, model: Any, network: Any, samples: Any) -> None:
    with pytest.raises(SettingError, match=r"LateFusionRidge has no representation.*SCSD"):
        nearest_samples(model, samples, data.views)
    with pytest.raises(ViewError, match="have no neighbours: 120"):
        nearest_samples(network, samples, data.views)
    with pytest.raises(SettingError, match="found str"):
        nearest_samples("model", samples, data.views)
    for n in (0, True, 2.5):
        with pytest.raises(SettingError, match="at least 1"):
            nearest_samples(network, samples, data.views, n=n)
