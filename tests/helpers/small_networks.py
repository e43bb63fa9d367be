"""Networks of a few units in double precision, without what is random, and batches for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

import small_batches
from small_batches import DIMS, B, C, draw, normal
from viewgap.methods import aimnet, lmvcat
from viewgap.methods.drls import DRLSNetwork, DRLSSettings
from viewgap.methods.dvsm import DVSMNetwork, DVSMSettings
from viewgap.methods.pcve import PCVENetwork, PCVESettings
from viewgap.methods.simm import SIMMNetwork, SIMMSettings
from viewgap.methods.sip import SIPNetwork, SIPSettings
from viewgap.methods.tdlsr import TDLSRNetwork, TDLSRSettings
from viewgap.nn.label_graph import conditional_labels
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.source import BatchSource
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings

M = len(DIMS)
SIZES: dict[str, Any] = {"hidden": (8,), "batch_size": 4}
AIMNET = aimnet.AIMNetSettings(embedding=6, heads=2, dropout=0.0, references=12)
LMVCAT = lmvcat.LMVCATSettings(
    embedding=6, heads=2, layers=2, feed_forward=8, dropout=0.0, input_dropout=0.0
)
SIMM = SIMMSettings(embedding=4, alpha=0.3, beta=0.2)
DVSM = DVSMSettings(embedding=4, neighbours=3, layers=2, dropout=0.0)
SIP, DRLS = SIPSettings(**SIZES, embedding=6), DRLSSettings(**SIZES, embedding=6)
# What is drawn depends on the shape of a batch: no column is hidden, rotations are drawn once.
PCVE = PCVESettings(**SIZES, embedding=4, masking=0.0, rotations="once", warm_up=0)
TDLSR = TDLSRSettings(**SIZES, embedding=4, neighbours=2, references=8)
GAUSSIAN: dict[str, DeepSettings] = {"sip": SIP, "drls": DRLS, "pcve": PCVE, "tdlsr": TDLSR}
GAUSSIAN |= {f"{name}, all rows": replace(own, norm_rows="all") for name, own in GAUSSIAN.items()}
GAUSSIAN |= {
    "drls, hidden views": replace(DRLS, view_dropout=0.5),
    "pcve, warm-up": replace(PCVE, warm_up=5),
    "tdlsr, hidden views": replace(TDLSR, view_dropout=0.5),
}
OTHERS: dict[str, DeepSettings] = {"aimnet": AIMNET, "lmvcat": LMVCAT, "simm": SIMM, "dvsm": DVSM}
OTHERS |= {
    f"{name}, filled": replace(OTHERS[name], incomplete="filled") for name in ("simm", "dvsm")
}
VARIANTS = GAUSSIAN | OTHERS
NETWORKS: dict[type[DeepSettings], Callable[..., Any]] = {
    aimnet.AIMNetSettings: aimnet._Network,
    lmvcat.LMVCATSettings: lmvcat._Network,
    SIMMSettings: SIMMNetwork,
    DVSMSettings: DVSMNetwork,
    SIPSettings: SIPNetwork,
    DRLSSettings: DRLSNetwork,
    PCVESettings: PCVENetwork,
    TDLSRSettings: TDLSRNetwork,
}


def make_source(observed: Tensor | None = None, seen: Tensor | None = None) -> BatchSource:
    """Sample 2 has no positive label."""
    return small_batches.make_source(observed, seen, without_positive=[2])


def make_network(
    settings: DeepSettings, source: BatchSource | None = None, rows: Any = slice(None)
) -> Any:
    """Every code its mean: draws of another shape are other draws.

    `source`, `rows`: the training rows of D-VSM, whose nodes are the network.
    """
    network = NETWORKS[type(settings)](DIMS, C, settings, small_batches.seeded()).double()
    network.use_noise(small_batches.seeded(5))
    if hasattr(network, "draw"):
        network.draw.scale = 0.0
    if hasattr(network, "rotations"):
        network.rotations.draw_once(B)
    if hasattr(network, "label_graph"):
        graph = conditional_labels((draw(B, C, seed=9) > 0.6).double())
        network.label_graph.copy_(graph.fill_diagonal_(0.0))
    if hasattr(network, "preference"):
        network.preference.data = normal(M, C, seed=8)
    if hasattr(network, "neighbours"):
        network.neighbours.copy_(draw(C, C, seed=5) > 0.4).fill_diagonal_(False)
    if hasattr(network, "missing"):
        network.missing.data = normal(*network.missing.shape, seed=7)
    network.prepare_rows(source or make_source(), np.arange(B)[rows])
    network.begin_epoch()
    return network


def make_batch(
    form: str,
    network: RowwiseNetwork,
    source: BatchSource | None = None,
    rows: Tensor | None = None,
) -> Batch:
    """A batch of this form, with what the network wants to know of its rows."""
    return small_batches.make_batch(form, source or make_source(), rows, network.layout)


def forms(name: str) -> list[str]:
    """The forms that a batch of this network can have.

    Where missing rows count, or are filled in, they have to be there, one by one.
    """
    needs_all = name.endswith(("all rows", "filled"))
    return [form for form in small_batches.FORMS if "dense" in form or not needs_all]
