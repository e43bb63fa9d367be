"""Golden numbers in float64: a change here is a change of the model (see CHANGELOG)."""

import numpy as np
import pytest

import viewgap

GOLDEN = {
    "default": (
        [
            [0.413809219, 0.271888485, 0.226531541, 0.192946463],
            [0.407867401, 0.270792945, 0.216695759, 0.208807434],
        ],
        [8.757297571, 8.790022708, 8.804560113],
    ),
    "paper": (
        [
            [0.518497299, 0.554116702, 0.57596993, 0.515411693],
            [0.552046077, 0.545129305, 0.579717997, 0.600357852],
        ],
        [5.423620767, 5.315177586, 5.293987278],
    ),
}


@pytest.mark.parametrize("profile", sorted(GOLDEN))
def test_small_fit_gives_the_golden_numbers(profile: str) -> None:
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
    expected, losses = GOLDEN[profile]
    np.testing.assert_allclose(model.history_["loss"], losses, rtol=1e-6)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-6)
