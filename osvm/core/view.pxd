# A matrix of Python as Rows: the one public header that touches Python objects.
#
# Invariants
# - nothing is copied: the arrays belong to the matrix, which outlives the Rows unchanged;
# - after rows_view every row can be read, and every column number of a sparse row is
#   within the matrix.  Values are not looked at: a NaN shows in the loss.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t

from osvm.core.rows cimport rows_init_csr, rows_init_dense
from osvm.core.typedefs cimport Rows, float32_t, float64_t


cdef inline size_t array_address(object array, tuple types) except? 0:
    """Where a numpy array begins; TypeError unless it is aligned and of one of these types."""
    if array.dtype not in types or not array.flags.aligned:
        raise TypeError(f"expected an aligned array of {' or '.join(types)}, got {array.dtype}")
    return array.__array_interface__["data"][0]


cdef inline int rows_view_csr(Rows *X, object csr) except -1:
    """View a CSR matrix of scipy, of float32 or float64 with int32 or int64."""
    from copy import copy
    cdef Py_ssize_t n_rows, n_features
    cdef size_t values, indices, indptr
    copy(csr).check_format(full_check=True)  # of a twin: it would put other arrays into csr
    n_rows, n_features = csr.shape
    for array in (csr.data, csr.indices, csr.indptr):
        if not array.flags.c_contiguous:
            raise TypeError("the arrays of a CSR matrix must be contiguous")
    values = array_address(csr.data, ("float32", "float64"))
    indices = array_address(csr.indices, ("int32", "int64"))
    indptr = array_address(csr.indptr, (csr.indices.dtype.name,))
    if csr.data.itemsize == 4 and csr.indices.itemsize == 4:
        rows_init_csr(X, <const float32_t *> values, <const int32_t *> indices,
                      <const int32_t *> indptr, n_rows, n_features)
    elif csr.data.itemsize == 4:
        rows_init_csr(X, <const float32_t *> values, <const int64_t *> indices,
                      <const int64_t *> indptr, n_rows, n_features)
    elif csr.indices.itemsize == 4:
        rows_init_csr(X, <const float64_t *> values, <const int32_t *> indices,
                      <const int32_t *> indptr, n_rows, n_features)
    else:
        rows_init_csr(X, <const float64_t *> values, <const int64_t *> indices,
                      <const int64_t *> indptr, n_rows, n_features)
    return 0


cdef inline int rows_view_dense(Rows *X, object array) except -1:
    """View a numpy array of float32 or float64, in any order."""
    cdef Py_ssize_t n_rows, n_features, row_step, step, size = array.itemsize
    cdef size_t values = array_address(array, ("float32", "float64"))
    n_rows, n_features = array.shape
    row_step, step = array.strides
    if row_step % size or step % size:
        raise TypeError("the rows or columns of the array are not whole elements apart")
    if size == 4:
        rows_init_dense(X, <const float32_t *> values, n_rows, n_features,
                        row_step // size, step // size)
    else:
        rows_init_dense(X, <const float64_t *> values, n_rows, n_features,
                        row_step // size, step // size)
    return 0


cdef inline int rows_view(Rows *X, object matrix) except -1:
    """View a CSR matrix of scipy or a two-dimensional numpy array, after a check.

    TypeError for another format or type, ValueError for a matrix that is malformed.
    """
    if len(matrix.shape) != 2:
        raise ValueError(f"expected two dimensions, got {len(matrix.shape)}")
    if getattr(matrix, "format", None) == "csr":
        return rows_view_csr(X, matrix)
    if hasattr(matrix, "__array_interface__"):
        return rows_view_dense(X, matrix)
    raise TypeError(f"expected a CSR matrix or a numpy array, got {type(matrix).__name__}")
