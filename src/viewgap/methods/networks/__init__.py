"""What the methods with a network share besides `deep.py`: parameters, kinds of networks, storage.

For `deep.py` and these methods only.
"""
