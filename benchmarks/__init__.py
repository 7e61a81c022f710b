"""Benchmarks: what an analysis costs, as a ratio to a plain eager forward pass."""
