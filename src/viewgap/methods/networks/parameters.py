"""The parameters that every network takes, stated once: `**shared: Unpack[NetworkParameters]`.

Constructors state what is their own. Editors and type checkers complete both, and the signature
that Python, `help` and scikit-learn see has all of them (`estimator/parameters.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from viewgap.methods.estimator.parameters import Default
from viewgap.parameters import Seed
from viewgap.training.callbacks import Callback


class NetworkParameters(TypedDict, total=False):
    """Those without a `Default` are None; a setting that is None takes the profile's value."""

    profile: Annotated[str, Default("default")]
    random_state: Seed
    device: Annotated[str, Default("auto")]
    precision: Annotated[str, Default("auto")]
    scaling: str | None
    features: str | None
    norm_rows: str | None
    learning_rate: float | None
    weight_decay: float | None
    max_grad_norm: float | None
    ema_decay: float | None
    batch_size: int | None
    max_epochs: int | None
    patience: int | None
    min_epochs: int | None
    ties_renew_patience: bool | None
    shuffle: bool | None
    shuffle_window: int | None
    score_weights: Sequence[float] | None
    n_networks: int | None
    cross_fit: bool | None
    pooling: str | None
    validation_fraction: Annotated[float, Default(0.15)]
    views: Mapping[str, Any] | None
    nan: Annotated[str, Default("mean")]
    on_empty: Annotated[str, Default("error")]
    callbacks: Sequence[Callback] | None
    verbose: Annotated[bool | int, Default(False)]
