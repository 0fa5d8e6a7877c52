"""The sources' experiments, one command each; their figures are in `results/`."""
