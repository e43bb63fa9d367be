"""Pieces of work on streams of their own: on a CPU one after the other."""

from functools import partial

import torch
from torch import Tensor

from viewgap.nn.streams import run_on_streams


def test_results_come_in_the_order_of_the_pieces() -> None:
    x, done = torch.ones(3), []

    def piece(number: int) -> Tensor:
        done.append(number)
        return x * number

    found = run_on_streams([partial(piece, k) for k in range(4)], [[x]] * 4)
    assert done == [0, 1, 2, 3]
    for number, value in enumerate(found):
        assert torch.equal(value, x * number)
