"""What makes a method an estimator of scikit-learn: parameters, input of `fit`, notebook, summary.

`base.py` is put together from it, so nothing in here imports that. Packages above `methods` may ask
it about 1-D labels, numbers that are not finite, and training rows.
"""
