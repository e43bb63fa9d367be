"""Matrices in NumPy: standardised blocks of views, products row by row, singular values, threads.

For every method; `export` takes the edge of `soft_clip` from here.
"""
