"""SIP: a multi-view variational auto-encoder whose fused code keeps what the views share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from viewgap.methods._sip_network import SIPNetwork, SIPSettings
from viewgap.methods.deep import DeepClassifier
from viewgap.parameters import Seed
from viewgap.training.callbacks import Callback


class SIP(DeepClassifier):
    r"""Variational codes of views, their product of experts, and label prototypes.

    View v has a Gaussian code :math:`N(\mu_i^v, s_i^v)`, from an encoder of its own and a head that
    all views share. The product of the experts of the views that a sample has, and of a standard
    normal prior, is :math:`N(\mu_i, s_i)`; z is the mean of draws from it, and every decoder
    rebuilds its view from z. Label j has a Gaussian prototype in the same space, of which
    :math:`l_j` is drawn; :math:`P_{ij} = \sigma(w_j^\top [z_i; l_j] + b_j)`.

    .. math:: L = \frac{\sum_{ij} G_{ij}\, \mathrm{BCE}(P_{ij}, Y_{ij})}{\sum_{ij} G_{ij}}
              + \alpha \sum_v \frac{1}{B d_v} \sum_{ij} W_{iv} (\hat x^v_{ij} - x^v_{ij})^2
              + \beta L_{proto} + \sigma L_{coh}

    .. math:: L_{proto} = \frac{1}{B} \sum_i \mathrm{mean}_d \Big( z_i
              - \frac{\sum_j G_{ij} Y_{ij} l_j}{\sum_j G_{ij} Y_{ij}} \Big)^2, \quad
              L_{coh} = \frac{\sum_{iv} W_{iv}\, \mathrm{mean}_d\, \mathrm{KL}(
              N(\mu_i, s_i) \,\|\, N(\mu_i^v, s_i^v))}{\sum_{iv} W_{iv}}

    The coherence term :math:`L_{coh}` presses what only one view knows out of the fused code. A
    sample without an observed positive is pulled to 0 by :math:`L_{proto}`.

    Deviations from the released code. Both profiles: prototypes are normalised over the labels
    themselves in evaluation too, which running statistics follow with a lag; the mean of draws is
    drawn at once, which is the same distribution; parts of the released network that nothing uses
    are left out. `profile="paper"` has the weights published for Corel5k, and draws in prediction
    as released, from a fixed seed. `profile="default"`: prediction from means, so that every
    sample is answered for itself and repeatably; normalisation over observed rows only; equal
    weights in the score; patience of 40 epochs.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> small = {"hidden": (16,), "embedding": 8}
    >>> model = viewgap.SIP(max_epochs=2, random_state=0, **small).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = (
        "variational codes fused by precision; label prototypes; coherent views"
    )
    reference: ClassVar[str] = (
        "Liu, Xu, Wen et al.: Partial Multi-View Multi-Label Classification via Semantic "
        "Invariance Learning and Prototype Modeling, ICML 2024"
    )
    certainty: ClassVar[str] = "released code"

    settings_type = SIPSettings
    network_type = SIPNetwork
    profiles: ClassVar = {
        "default": SIPSettings(patience=40),
        "paper": SIPSettings(
            norm_rows="all",
            draws_in_prediction=True,
            score_weights=(0.25, 0.25, 0.25),
            patience=200,
        ),
    }

    def __init__(
        self,
        *,
        profile: str = "default",
        random_state: Seed = None,
        device: str = "auto",
        precision: str = "auto",
        embedding: int | None = None,
        hidden: Sequence[int] | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        sigma: float | None = None,
        draws: int | None = None,
        draws_in_prediction: bool | None = None,
        dropout: float | None = None,
        scaling: str | None = None,
        features: str | None = None,
        norm_rows: str | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        max_grad_norm: float | None = None,
        ema_decay: float | None = None,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        patience: int | None = None,
        min_epochs: int | None = None,
        ties_renew_patience: bool | None = None,
        shuffle: bool | None = None,
        score_weights: Sequence[float] | None = None,
        n_networks: int | None = None,
        pooling: str | None = None,
        validation_fraction: float = 0.15,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
    ) -> None:
        self._store_parameters(locals())

    def _label_matrices(self, settings: SIPSettings, n_views: int) -> float:
        return 5.0  # the table of prototypes, its gradient, its moments, the best one so far
