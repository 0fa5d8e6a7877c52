# Values of kernel columns for a fixed set of rows; see column_values.pyx.
from libc.stdint cimport int32_t

from osvm.core.typedefs cimport Kernel, Rows

cdef enum:
    MAX_BLOCK = 256   # most columns that one call may ask for
    CHUNK = 512       # rows per matrix product

# How values are computed.
cdef enum Mode:
    DENSE = 0         # matrix products
    NEARBY = 1        # rbf in few dimensions: distances
    SPARSE = 2
    PRECOMPUTED = 3
    FUNCTION = 4      # a Python function: not computed here

cdef extern from *:
    ctypedef const float *const_float_p "const float *"
    ctypedef const double *const_double_p "const double *"

# BLAS through scipy, without needing scipy to compile.
ctypedef void (*sgemm_t)(char *, char *, int *, int *, int *, float *, float *, int *,
                         float *, int *, float *, float *, int *) noexcept nogil
ctypedef void (*dgemm_t)(char *, char *, int *, int *, int *, double *, double *, int *,
                         double *, int *, double *, double *, int *) noexcept nogil
cdef sgemm_t blas_sgemm
cdef dgemm_t blas_dgemm


# Everything that a kernel value needs; the memory belongs to the owner of the struct.
cdef struct Values:
    Kernel kernel
    int mode
    bint wide             # float64 values
    Py_ssize_t n          # rows, the length of a column
    Py_ssize_t d
    double offset         # added to every kernel value
    void *x               # dense rows, or the precomputed matrix
    void *xt              # few dimensions: the rows feature by feature
    void *sq              # squared norms in the columns' type
    double *sq64
    const Rows *rows      # sparse: the matrix
    Py_ssize_t *order     # sparse: row of the matrix behind position p
    int32_t *local        # sparse: feature -> line of the block, or -1
    int32_t *picks        # sparse: room for the longest row
    void *picked
    void *gathered        # dense: room for 2 MAX_BLOCK rows
    void *block           # room for MAX_BLOCK x CHUNK values


cdef int values_compute(Values *v, const Py_ssize_t *columns, Py_ssize_t count,
                        Py_ssize_t start, Py_ssize_t stop, const Py_ssize_t *rows,
                        void **out) noexcept nogil
cdef double values_diagonal(const Values *v, Py_ssize_t i) noexcept nogil
cdef void values_sum(const Values *v, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                     const double *delta, Py_ssize_t count) noexcept nogil
cdef void values_norms(Values *v, double *line) noexcept nogil
