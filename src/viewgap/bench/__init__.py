"""Experiments: a grid of cells, a runner that never loses a finished cell, and tables of results.

`experiment` says what to run, `runner` runs one of the `cells`, `grid` has `workers` or a
`cluster` run them all, `claims` share them between runs, `journal` keeps what is done, `record`
is what is kept, `tables` reads it.
"""
