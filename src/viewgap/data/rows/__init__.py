"""What a view stores, how rows of it are read, and which rows belong to which sample.

Knows neither views nor labels: `viewset`, `labels`, `preprocessing` and `formats` are made of it.
"""
