"""SIP, DRLS, PCVE and TDLSR, small and in double precision, and batches for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

import small_batches
from small_batches import B, C, draw, normal
from viewgap.methods.drls import DRLSNetwork, DRLSSettings
from viewgap.methods.pcve import PCVENetwork, PCVESettings
from viewgap.methods.sip import SIPNetwork, SIPSettings
from viewgap.methods.tdlsr import TDLSRNetwork, TDLSRSettings
from viewgap.nn.label_graph import conditional_labels
from viewgap.training.batches import Batch, BatchSource
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings

M, DIMS = 3, (5, 3, 7)
SIZES: dict[str, Any] = {"hidden": (8,), "batch_size": 4}
SIP, DRLS = SIPSettings(**SIZES, embedding=6), DRLSSettings(**SIZES, embedding=6)
# What is drawn depends on the shape of a batch: no column is hidden, rotations are drawn once.
PCVE = PCVESettings(**SIZES, embedding=4, masking=0.0, rotations="once", warm_up=0)
TDLSR = TDLSRSettings(**SIZES, embedding=4, neighbours=2, references=8)
VARIANTS: dict[str, DeepSettings] = {"sip": SIP, "drls": DRLS, "pcve": PCVE, "tdlsr": TDLSR}
VARIANTS |= {f"{name}, all rows": replace(own, norm_rows="all") for name, own in VARIANTS.items()}
VARIANTS |= {
    "drls, hidden views": replace(DRLS, view_dropout=0.5),
    "pcve, warm-up": replace(PCVE, warm_up=5),
    "tdlsr, hidden views": replace(TDLSR, view_dropout=0.5),
}
NETWORKS: dict[type[DeepSettings], Callable[..., Any]] = {
    SIPSettings: SIPNetwork,
    DRLSSettings: DRLSNetwork,
    PCVESettings: PCVENetwork,
    TDLSRSettings: TDLSRNetwork,
}


def make_source(observed: Tensor | None = None) -> BatchSource:
    """Sample 2 has no positive label."""
    return small_batches.make_source(observed, dims=DIMS, without_positive=[2])


def make_network(settings: DeepSettings) -> Any:
    """Every code its mean: draws of another shape are other draws."""
    network = NETWORKS[type(settings)](DIMS, C, settings, small_batches.seeded()).double()
    network.use_noise(small_batches.seeded(5))
    if hasattr(network, "draw"):
        network.draw.scale = 0.0
    if hasattr(network, "rotations"):
        network.rotations.draw_once(B)
        network.begin_epoch()
    if hasattr(network, "label_graph"):
        graph = conditional_labels((draw(B, C, seed=9) > 0.6).double())
        network.label_graph.copy_(graph.fill_diagonal_(0.0))
    if hasattr(network, "preference"):
        network.preference.data = normal(M, C, seed=8)
    return network


def make_batch(
    form: str,
    network: RowwiseNetwork,
    source: BatchSource | None = None,
    rows: Tensor | None = None,
) -> Batch:
    """A batch of this form, with what the network wants to know of its rows."""
    return small_batches.make_batch(form, source or make_source(), rows, network.layout)
