"""ELSMML: its answers, its two profiles, when it stops, and wide views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.methods.elsmml.estimator import ELSMML, principal_directions
from viewgap.methods.linalg.blocks import soft_clip


def test_answers_are_the_mean_over_the_observed_views(small: Any) -> None:
    model = ELSMML(features="plain").fit(small.views, small.Y)
    found = model.predict_proba(small.views)
    blocks = [small.standardised(name) for name in small.blocks]
    frequency = np.nanmean(small.Y, axis=0)
    for i in range(60):
        latent = [blocks[v][i] @ model._maps[v] for v in range(2) if small.observed[i, v]]
        scores = frequency + np.mean(latent, axis=0) @ model._decoder
        np.testing.assert_allclose(found[i], soft_clip(scores), atol=1e-5)


def test_the_paper_fills_with_means_and_zeros(small: Any) -> None:
    found = ELSMML(profile="paper").fit(small.views, small.Y)
    zeros = ELSMML(profile="paper").fit(small.views, np.nan_to_num(small.Y))
    np.testing.assert_array_equal(
        found.predict_proba(small.views), zeros.predict_proba(small.views)
    )
    # Views that a sample does not have answer too: with the mean, which is nothing.
    blocks = [small.standardised(name) for name in small.blocks]
    latent = sum(block @ part for block, part in zip(blocks, found._maps, strict=True)) / 2
    scores = np.nan_to_num(small.Y).mean(axis=0) + latent @ found._decoder
    np.testing.assert_allclose(found.predict_proba(small.views), soft_clip(scores), atol=1e-5)


def test_latent_semantics_of_the_profiles(small: Any) -> None:
    assert ELSMML().fit(small.views, small.Y)._decoder.shape == (3, 3)
    assert ELSMML(profile="paper").fit(small.views, small.Y)._decoder.shape == (1, 3)


@pytest.mark.parametrize("shape", [(30, 12), (12, 30)])
def test_wide_views_are_given_by_their_principal_components(shape: tuple[int, int]) -> None:
    block = np.random.default_rng(0).normal(size=shape)
    found = principal_directions(block, 5)
    right = np.linalg.svd(block, full_matrices=False)[2][:5]
    np.testing.assert_allclose(found @ found.T, right.T @ right, atol=1e-9)
    np.testing.assert_array_equal(principal_directions(block, shape[1]), np.eye(shape[1]))
    nothing = principal_directions(np.zeros(shape), 5)
    assert np.isfinite(nothing).all()


def test_more_latent_semantics_than_labels(small: Any) -> None:
    model = ELSMML(latent_share=3.0).fit(small.views, small.Y)
    assert model._decoder.shape == (9, 3)
    assert np.isfinite(model.predict_proba(small.views)).all()
