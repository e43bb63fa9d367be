"""
Two thousand labels without a matrix
====================================

Labels stay sparse, answers come in blocks, and the area under the ROC curve comes from histograms:
how far can it be from the exact one?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import viewgap
from viewgap.data import SparseLabels
from viewgap.metrics import evaluate_blocks, macro_auc

rng = np.random.default_rng(0)
n, c = 600, 2000
place = rng.normal(size=(n, 6))
X = {"text": place + rng.normal(size=(n, 6)), "image": place @ rng.normal(size=(6, 20))}
X["image"][rng.random(n) < 0.4] = np.nan
scores = place @ rng.normal(size=(6, c)) + rng.normal(size=(n, c))
Y = sparse.csr_array(scores > np.quantile(scores, 0.99))
Y = Y.astype(np.float64)
train, new = slice(0, 400), np.arange(400, n)

# %%
# `SparseLabels` keeps positives and exceptions only. Given as it is, everything in the fit goes
# through labels and rows in blocks; `label_block` is chosen by itself above 4096 labels.

labels = SparseLabels.from_sparse(Y[train])
print(labels)
small = {"hidden": [32], "embedding": 32, "codebook_size": 32, "n_networks": 1, "cross_fit": False}
views = viewgap.ViewSet(X)
model = viewgap.SCSD(max_epochs=15, label_block=500, random_state=0, **small)
model.fit(views[train], labels)

# %%
# Blocks of 50 rows are answered and measured, and forgotten.


def blocks():
    for rows in np.split(new, len(new) // 50):
        yield Y[rows].toarray(), model.predict_proba(views[rows])


found = evaluate_blocks(blocks())
print({name: round(value, 3) for name, value in found.items()})

# %%
# With more bins the bound on macro AUC becomes small; the error itself is smaller still.

counts = [4, 8, 16, 32, 64, 128, 256]
measured = [evaluate_blocks(blocks(), bins=count) for count in counts]
exact = macro_auc(*(np.concatenate(part) for part in zip(*blocks(), strict=True)))
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.loglog(counts, [one.macro_auc_error for one in measured], "o-", label="stated bound")
errors = [abs(one["macro AUC"] - exact) for one in measured]
axes.loglog(counts, errors, "s--", label="error")
axes.set(xlabel="bins", ylabel="of macro AUC")
axes.legend(frameon=False)
plt.show()
