# Declarations of the column provider for the compiled loops; see _columns.pyx.
from libc.stdint cimport int32_t

from osvm._rows cimport RowSource
from osvm.core.kernel cimport Kernel

# Most columns that one fetch may ask for.
cdef enum:
    MAX_BLOCK = 256

cdef extern from "osvm_columns.h" nogil:
    ctypedef const float *const_float_p "const float *"
    ctypedef const double *const_double_p "const double *"
    void osvm_rbf_near_f32(float *out, Py_ssize_t n, Py_ssize_t d, const float *xt,
                           Py_ssize_t ld, const float *z, float gamma)
    void osvm_rbf_near_f64(double *out, Py_ssize_t n, Py_ssize_t d, const double *xt,
                           Py_ssize_t ld, const double *z, double gamma)
    void osvm_rbf_sum_f32(double *o, Py_ssize_t n, Py_ssize_t d, const float *xt, Py_ssize_t ld,
                          const const_float_p *z, const double *delta, Py_ssize_t count,
                          float gamma)
    void osvm_rbf_sum_f64(double *o, Py_ssize_t n, Py_ssize_t d, const double *xt,
                          Py_ssize_t ld, const const_double_p *z, const double *delta,
                          Py_ssize_t count, double gamma)
    void osvm_combine_f32(double *o, Py_ssize_t n, const const_float_p *columns,
                          const double *delta, Py_ssize_t count)
    void osvm_combine_f64(double *o, Py_ssize_t n, const const_double_p *columns,
                          const double *delta, Py_ssize_t count)
    void osvm_block_axpy_f32(float *acc, Py_ssize_t width, Py_ssize_t count,
                             const int32_t *local, const float *values, const float *w)
    void osvm_block_axpy_f64(double *acc, Py_ssize_t width, Py_ssize_t count,
                             const int32_t *local, const double *values, const double *w)

# BLAS through scipy, without needing scipy to compile.
ctypedef void (*sgemm_t)(char *, char *, int *, int *, int *, float *, float *, int *,
                         float *, int *, float *, float *, int *) noexcept nogil
ctypedef void (*dgemm_t)(char *, char *, int *, int *, int *, double *, double *, int *,
                         double *, int *, double *, double *, int *) noexcept nogil
cdef sgemm_t blas_sgemm
cdef dgemm_t blas_dgemm


cdef class Columns:
    cdef Kernel kernel
    cdef readonly Py_ssize_t n             # length of a column
    cdef readonly Py_ssize_t d
    cdef readonly Py_ssize_t n_slots       # columns that the cache holds
    cdef readonly bint wide                # float64 columns
    cdef readonly double offset            # added to every kernel value
    cdef readonly Py_ssize_t hits          # columns found in the cache
    cdef readonly double computed          # columns computed (parts count as fractions)
    cdef RowSource source                  # sparse rows, else None
    cdef object function                   # callable kernel, else None
    cdef object owned                      # arrays that the pointers below look into
    cdef int mode                          # how values are computed, see _columns.pyx
    cdef void *x                           # dense rows, or the precomputed matrix
    cdef void *xt                          # few dimensions: the rows feature by feature
    cdef void *sq                          # squared norms in the columns' type
    cdef double *sq64
    cdef Py_ssize_t *order                 # sparse: row of the matrix behind position p
    cdef char *store                       # n_slots x n values
    cdef Py_ssize_t *slot_of               # column -> slot or -1
    cdef Py_ssize_t *col_of                # slot -> column or -1
    cdef Py_ssize_t *length                # slot -> number of valid values
    cdef Py_ssize_t *newer                 # linked list of slots by last use
    cdef Py_ssize_t *older
    cdef Py_ssize_t newest
    cdef Py_ssize_t oldest
    cdef Py_ssize_t used
    cdef void *gathered                    # MAX_BLOCK rows
    cdef void *block                       # temporaries of one chunk
    cdef int32_t *local                    # sparse: feature -> line of `block_rows`, or -1
    cdef object sparse_rows                # sparse: growing buffer of a block's lines

    cdef void touch(self, Py_ssize_t slot) noexcept nogil
    cdef Py_ssize_t take_slot(self, Py_ssize_t column) noexcept nogil
    cdef int fetch(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t m,
                   void **out) except -1 nogil
    cdef int gram(self, const Py_ssize_t *rows, Py_ssize_t count, double *out) except -1 nogil
    cdef double diagonal(self, Py_ssize_t i) noexcept nogil
    cdef void combine(self, double *o, Py_ssize_t m, void **columns, const double *delta,
                      Py_ssize_t count) noexcept nogil
    cdef bint sums_directly(self) noexcept nogil
    cdef void sum_directly(self, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                           const double *delta, Py_ssize_t count) noexcept nogil
    cdef int compute(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                     Py_ssize_t stop, const Py_ssize_t *rows, void **out) except -1 nogil
    cdef int compute_sparse(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                            Py_ssize_t stop, const Py_ssize_t *rows, void **out) except -1 nogil
    cdef int compute_python(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                            Py_ssize_t stop, const Py_ssize_t *rows, void **out) except -1
    cdef void finish(self, void *out, Py_ssize_t n, Py_ssize_t column, Py_ssize_t start,
                     const Py_ssize_t *rows) noexcept nogil
