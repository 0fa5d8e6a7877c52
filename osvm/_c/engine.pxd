# The compiled half of the headers in osvm/core, and what the library's own classes need of it.
#
# Clients cimport the first part from osvm.core.abi, view, expansion and fixed; the second part is
# the library's own.
from libc.stddef cimport size_t

from osvm._c.structs cimport Buffer, ColumnCache, FixedSet, RowSet
from osvm.core.typedefs cimport Expansion, Fixed, Kernel, Row, Rows

# ------------------------------------------------------------- for clients

cdef int abi_compare(int number, const size_t *sizes, int count) except -1

cdef int view_rows(Rows *X, object matrix) except -1
cdef void *view_array(object array, str dtype, Py_ssize_t n) except NULL

cdef Expansion *expansion_new(const Kernel *kernel, Py_ssize_t n_features, Py_ssize_t n_out,
                              Py_ssize_t budget, int eviction, int flags) noexcept nogil
cdef void expansion_free(Expansion *f) noexcept nogil
cdef Py_ssize_t expansion_count(const Expansion *f) noexcept nogil
cdef int expansion_row(const Expansion *f, Py_ssize_t slot, Row *x) noexcept nogil
cdef int expansion_load(Expansion *f, const Rows *X, const Py_ssize_t *order, Py_ssize_t first,
                        Py_ssize_t n, Py_ssize_t first_id) noexcept nogil
cdef void expansion_release(Expansion *f) noexcept nogil
cdef double expansion_self(const Expansion *f, Py_ssize_t t) noexcept nogil
cdef void expansion_score(const Expansion *f, Py_ssize_t t, double *out) noexcept nogil
cdef void expansion_resum(Expansion *f, Py_ssize_t t) noexcept nogil
cdef void expansion_shrink(Expansion *f, double factor) noexcept nogil
cdef int expansion_insert(Expansion *f, Py_ssize_t t, const double *alpha) noexcept nogil
cdef void expansion_trace_score(const Expansion *f, Py_ssize_t t, double *out) noexcept nogil
cdef void expansion_trace_shrink(Expansion *f, double factor, double decay,
                                 double eta_reg) noexcept nogil
cdef int expansion_trace_insert(Expansion *f, Py_ssize_t t, const double *alpha,
                                const double *beta) noexcept nogil
cdef int expansion_scores(const Expansion *f, const Rows *X, Py_ssize_t first, Py_ssize_t n,
                          double *out) noexcept nogil
cdef int expansion_trace_scores(const Expansion *f, const Rows *X, Py_ssize_t first,
                                Py_ssize_t n, double *out) noexcept nogil

cdef Fixed *fixed_new(const Kernel *kernel, const Rows *X, Py_ssize_t n_out, bint float64,
                      double cache_bytes, double *alpha, double *outputs) noexcept nogil
cdef void fixed_free(Fixed *f) noexcept nogil
cdef int fixed_load(Fixed *f, const Py_ssize_t *rows, Py_ssize_t count) noexcept nogil
cdef int fixed_flush(Fixed *f, Py_ssize_t m) noexcept nogil

# ------------------------------------------------------------- for the library

cdef int engine_reserve(Buffer *buf, Py_ssize_t slots, Py_ssize_t more) noexcept nogil
cdef int engine_reserve_victims(Buffer *buf) noexcept nogil
cdef int engine_set_outputs(Buffer *buf, Py_ssize_t n_out) noexcept nogil
cdef void engine_measure(Buffer *buf) noexcept nogil
cdef void engine_fold_beta(Buffer *buf) noexcept nogil
cdef void engine_accumulate(Buffer *buf) noexcept nogil
cdef const double *engine_merge_tables() noexcept nogil
cdef double engine_merge_share(double m, double k) noexcept nogil

cdef int rows_init(RowSet *rows, const Kernel *kernel, const Rows *X, const Py_ssize_t *order,
                   Py_ssize_t n, bint f64, bint sparse, bint near) noexcept nogil
cdef void rows_free(RowSet *rows) noexcept nogil
cdef int rows_against(RowSet *rows, const Rows *X, Py_ssize_t n, void *out) noexcept nogil

cdef int columns_init(ColumnCache *cache, Py_ssize_t n, bint wide, bint near, double cache_bytes,
                      Py_ssize_t most) noexcept nogil
cdef void columns_free(ColumnCache *cache) noexcept nogil
cdef int columns_fetch(ColumnCache *cache, const Py_ssize_t *columns, Py_ssize_t count,
                       Py_ssize_t m, void **out) noexcept nogil
cdef int columns_gram(ColumnCache *cache, const Py_ssize_t *rows, Py_ssize_t count,
                      double *out) noexcept nogil
cdef void columns_combine(const ColumnCache *cache, double *o, Py_ssize_t m, void **columns,
                          const double *delta, Py_ssize_t count) noexcept nogil
cdef void columns_touch(ColumnCache *cache, Py_ssize_t slot) noexcept nogil
cdef FixedSet *columns_fixed(ColumnCache *cache, double *alpha, double *outputs,
                             Py_ssize_t n_out) noexcept nogil
