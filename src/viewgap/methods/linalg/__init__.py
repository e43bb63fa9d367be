"""Matrices in NumPy: standardised blocks of views, products row by row, singular values, threads.

For every method, and for packages above `methods` that compute as one of them does.
"""
