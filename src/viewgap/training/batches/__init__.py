"""Batches: which rows each reads (its index, decided by the epoch), and their tensors.

`source` puts the folder together for the rest of `training` and for networks, which see `Batch`.
"""
