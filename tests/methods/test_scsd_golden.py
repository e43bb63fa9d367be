"""Golden numbers in float64: a change here is a change of the model (see CHANGELOG)."""

import numpy as np
import pytest

import viewgap

GOLDEN = {
    "default": (
        [
            [0.506557130, 0.338324212, 0.265012319, 0.222561209],
            [0.520026229, 0.345502581, 0.274780988, 0.223292206],
        ],
        [9.001564761, 8.920747727, 8.875243058],
    ),
    "paper": (
        [
            [0.518497299, 0.554116702, 0.57596993, 0.515411693],
            [0.552046077, 0.545129305, 0.579717997, 0.600357852],
        ],
        [5.423620767, 5.315177586, 5.293987278],
    ),
    "equations": (
        [
            [0.520715401, 0.668969634, 0.570648318, 0.502197073],
            [0.449300427, 0.534817818, 0.543755760, 0.675090686],
        ],
        [6.379219221, 6.191119300, 6.234579914],
    ),
}


def numbers(profile: str) -> tuple[np.ndarray, list[float]]:
    """Some probabilities of a small fit, and its losses."""
    data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    views, labels = viewgap.amputate(data.views, data.labels, seed=0)
    model = viewgap.SCSD(
        profile=profile,
        random_state=0,
        max_epochs=3,
        device="cpu",
        precision="float64",
        hidden=[8],
        embedding=16,
        codebook_size=16,
        batch_size=16,
    )
    probabilities = model.fit(views, labels).predict_proba(views)[:2, :4]
    return probabilities, model.history_["loss"]


@pytest.mark.parametrize("profile", sorted(GOLDEN))
def test_small_fit_gives_the_golden_numbers(profile: str) -> None:
    # Other processors, by `python -m benchmarks.evidence golden`: at most 2e-8.
    for found, expected in zip(numbers(profile), GOLDEN[profile], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
