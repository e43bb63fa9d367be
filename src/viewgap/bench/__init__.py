"""Experiments in four parts: `run` them, keep `results`, `analyse` and `show` them."""
