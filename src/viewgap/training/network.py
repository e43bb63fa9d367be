"""What the loop asks of a network: named loss terms in training, probabilities otherwise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from viewgap.data.labels import Labels
from viewgap.nn.dropout import RandomModule
from viewgap.nn.linear import split_blocks
from viewgap.nn.streams import run_on_streams
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource


class DeepNetwork(nn.Module, ABC):
    """Base of the networks that `training.loop` can train.

    `compiles_ahead`: whether a step launches so many kernels of our own on a GPU that they are
    compiled before the fit begins (`steps.warm_up`). `shares_batches`: whether its loss is that
    of the whole batch where several processes have a part of it each: sums over rows go through the
    batch or a reducer, and what is drawn is drawn for rows that the batch names.
    """

    compiles_ahead: ClassVar[bool] = False
    shares_batches: ClassVar[bool] = False

    @property
    def layout(self) -> Layout:
        """What its batches are to hold in training."""
        return Layout()

    @abstractmethod
    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """Named scalars, weights included; their sum is minimised."""

    @abstractmethod
    def predict_batch(self, batch: Batch) -> Tensor:
        """Probabilities (B, c) in evaluation mode."""

    def prepare(self, labels: Labels) -> None:
        """Take from the training labels what the network needs to know, before training."""

    def prepare_rows(self, source: BatchSource, rows: NDArray[np.intp]) -> None:
        """Take from the training rows, those with these numbers, what the network keeps of them."""

    def allocate(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make room for what was kept of the training rows, by the shapes in a model file."""

    def end_training(self) -> None:
        """Called with the best weights: let go of what only training needs."""

    def begin_epoch(self) -> None:
        """Called before every pass over the training rows."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def largest(self) -> int:
        """Parameters of the largest network that is computed on its own."""
        return self.size

    @property
    def work(self) -> int:
        """About how many numbers such a network goes through in a step, besides its rows."""
        return self.size

    @property
    def finishes_epochs(self) -> bool:
        """Whether `finish_epoch` has anything to do."""
        return False

    def finish_epoch(self, source: BatchSource) -> None:
        """Called in evaluation mode after every pass, with the training rows."""

    def epoch_metrics(self) -> dict[str, float]:
        """Numbers worth keeping in the history of the fit, besides the loss terms."""
        return {}

    def use_noise(self, noise: torch.Generator) -> None:
        """Draw whatever is random from `noise`, a generator on the network's device."""
        for module in self.modules():
            if isinstance(module, RandomModule):
                module.generator = noise

    def generators(self) -> list[torch.Generator]:
        """The generators that the network draws from, in the order of its modules."""
        drawn = (m.generator for m in self.modules() if isinstance(m, RandomModule))
        return list({id(own): own for own in drawn if own is not None}.values())


class RowwiseNetwork(DeepNetwork):
    """A network that encodes every view for itself and answers from the codes of a sample.

    In evaluation mode all functions treat every row for itself, so that prediction is pure. The
    code of a row is all that the answer needs of it: where views are classified one by one, it is
    the prediction of the view, and `answer` pools these.
    """

    norm_rows: str = "observed"
    n_views: int

    @property
    def layout(self) -> Layout:
        """Only observed rows, unless missing ones count in the normalisation."""
        return Layout("dense" if self.norm_rows == "all" else "packed", self.norm_rows)

    @property
    def encoder_size(self) -> int:
        """About how many weights the rows of all views are multiplied with in prediction."""
        return self.size

    @property
    def elementwise_answer(self) -> bool:
        """Whether `answer` has no matrix products, so that it rounds alike for any number of rows.

        Others are asked block by block.
        """
        return False

    @property
    @abstractmethod
    def code_size(self) -> int:
        """Numbers in the code of a row."""

    @abstractmethod
    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """Codes of rows of one view. Shape: (R, d_v), (R,) -> (R, code_size).

        `norm`: how often each row counts in the normalisation, None = once.
        """

    def encode_rows(self, view: int, x: Tensor, n_rows: int) -> Tensor:
        """Codes of rows of one view in prediction; those after `n_rows` only fill up a block."""
        return self.encode_view(view, x)

    @abstractmethod
    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """Probabilities. Shape: codes (m, B, code_size), observed (B, m) -> (B, c)."""

    def predict_view(self, view: int, codes: Tensor) -> Tensor:
        """Probabilities from one view alone. Shape: (R, code_size) -> (R, c)."""
        return torch.cat([self._answer_alone(view, part) for part in split_blocks(codes)])

    def _answer_alone(self, view: int, codes: Tensor) -> Tensor:
        alone = codes.new_zeros(self.n_views, *codes.shape)
        alone[view] = codes
        observed = torch.zeros(len(codes), self.n_views, dtype=torch.bool, device=codes.device)
        observed[:, view] = True
        return self.answer(alone, observed)

    def encode(self, batch: Batch) -> list[Tensor]:
        """Codes of the rows of every view, m times (R_v, code_size); on a GPU side by side."""
        pieces = [partial(self._encode_in_batch, batch, v) for v in range(len(batch.views))]
        return run_on_streams(pieces, [[table] for table in batch.views.tables])

    def _encode_in_batch(self, batch: Batch, view: int) -> Tensor:
        with batch.draws_of_view(view):
            norm = batch.norm_weight(view, self.norm_rows)
            return self.encode_view(view, batch.views[view], norm)

    def predict_batch(self, batch: Batch) -> Tensor:
        """See `DeepNetwork`."""
        return self.answer(batch.stack(torch.cat(self.encode(batch))), batch.observed)

    def predict_views_of(self, batch: Batch) -> Tensor:
        """Probabilities of every view alone, zero where it is missing, (m, B, c)."""
        codes = self.encode(batch)
        return batch.stack(torch.cat([self.predict_view(v, own) for v, own in enumerate(codes)]))
