"""Benchmarks: asv classes, and tables to print with ``python -m asv_bench.bench_...``."""
