"""Records become rows, ranks, tests and comparisons."""
