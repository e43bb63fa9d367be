"""Training steps of an epoch: one by one, replayed on a GPU, or dealt to processes; and warm-up.

`loop.py` runs them; what they need of the epochs to come is prepared beside them.
"""
