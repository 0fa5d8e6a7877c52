"""Fuzz targets for every reader and for CSR input; see `targets` and `coverage_guided`."""
