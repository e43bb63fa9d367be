"""Building blocks in torch: they know nothing of data files, methods or metrics."""
