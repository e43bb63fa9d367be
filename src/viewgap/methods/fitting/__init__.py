"""How a fit runs, whatever is fitted: seeds, processes, checkpoints, held-out rows and pooling.

For `base.py`, `deep.py` and every method; the ensemble and tuning fit by the same rules.
"""
