"""Published experiments, run again: one module each, `python -m asv_bench.papers.<name>`."""
