"""One way to train every deep method: where it runs, its batches, the loop, and its state.

`batches` and `steps` have folders; `loop` brings them together.
"""
