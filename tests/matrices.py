"""Small sparse matrices of every type, for the tests of validation."""

import numpy as np
from scipy import sparse as sp

FLOATS = [np.float32, np.float64]
INTS = [np.int32, np.int64]


def make(value=np.float64, index=np.int32, kind=sp.csr_matrix, n_rows=12, n_features=9):
    X = kind(sp.random(n_rows, n_features, density=0.4, format="csr", random_state=0))
    X.data = X.data.astype(value)
    X.indices = X.indices.astype(index)
    X.indptr = X.indptr.astype(index)
    return X
