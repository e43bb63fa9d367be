"""Trees as arrays, gradient boosting, and the cross-fitted models of single views made of them.

For the methods with trees, and `export`; LightGBM is not needed to predict.
"""
