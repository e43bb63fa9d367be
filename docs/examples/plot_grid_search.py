"""
Choosing a parameter with scikit-learn
======================================

A ViewSet can be indexed by rows, so that scikit-learn's ``GridSearchCV`` takes it as it is:
missing views travel with the rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=600)
X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.5, label_rate=0.5, seed=0)

# %%
# Give it a splitter object: an integer ``cv`` makes scikit-learn look at the labels, and NaN among
# them is refused. The score is that of the estimator, average precision over observed labels.

grid = {"C": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]}
search = GridSearchCV(viewgap.ImputedLogistic(), grid, cv=KFold(4)).fit(X, Y)
print(search.best_params_)

# %%

mean = search.cv_results_["mean_test_score"]
spread = search.cv_results_["std_test_score"]
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.errorbar(grid["C"], mean, spread, marker="o", capsize=3)
axes.axvline(search.best_params_["C"], color="grey", linestyle=":")
axes.set(xscale="log", xlabel="C (small: strong regularisation)", ylabel="AP, 4 folds")
axes.grid(alpha=0.3)
assert np.isfinite(mean).all()
plt.show()
