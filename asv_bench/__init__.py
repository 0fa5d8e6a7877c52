"""Benchmarks (asv) and published experiments."""
