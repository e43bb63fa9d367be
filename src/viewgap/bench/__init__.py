"""Experiments: a grid of cells, a runner that never loses a finished cell, and tables of results.

`cells` says what to run, `runner` runs one cell, `grid` runs them all, `journal` keeps what is
done, `record` is what is kept, `tables` reads it.
"""
