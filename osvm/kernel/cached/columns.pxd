# Declarations of the column provider for the compiled loops; see columns.pyx.
from osvm.kernel.column_values cimport Values, const_double_p, const_float_p
from osvm._input.rows cimport RowSource

cdef extern from "../_c/columns.h" nogil:
    void osvm_combine_f32(double *o, Py_ssize_t n, const const_float_p *columns,
                          const double *delta, Py_ssize_t count)
    void osvm_combine_f64(double *o, Py_ssize_t n, const const_double_p *columns,
                          const double *delta, Py_ssize_t count)


cdef class Columns:
    cdef Values values                     # what kernel values need
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
    cdef char *store                       # n_slots x n values
    cdef Py_ssize_t *slot_of               # column -> slot or -1
    cdef Py_ssize_t *col_of                # slot -> column or -1
    cdef Py_ssize_t *length                # slot -> number of valid values
    cdef Py_ssize_t *newer                 # linked list of slots by last use
    cdef Py_ssize_t *older
    cdef Py_ssize_t newest
    cdef Py_ssize_t oldest
    cdef Py_ssize_t used

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
    cdef int compute_python(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                            Py_ssize_t stop, const Py_ssize_t *rows, void **out) except -1
