# The compiled half of the headers in osvm/core, and what the library's own classes need of it.
#
# Clients cimport the first part from osvm.core.abi, view, expansion and fixed; the second part is
# the library's own.
from libc.stddef cimport size_t

from osvm._c.structs cimport Buffer, ColumnCache, FixedSet, RowSet
from osvm.core.typedefs cimport Expansion, Fixed, Kernel, Row, Rows

# ------------------------------------------------------------- for clients

# What abi_check calls: ImportError unless the number is the library's own and none of these
# sizes, in the order of abi_check, is larger than the library's.
cdef int abi_compare(int number, const size_t *sizes, int count) except -1

# View a CSR matrix of scipy or a two-dimensional numpy array, after a check of its indices:
# float32 or float64, with int32 or int64; nothing is copied.  TypeError for another format or
# type, ValueError for a matrix that is malformed.  O(stored values).
cdef int view_rows(Rows *X, object matrix) except -1
# Where an array of n numbers of this type ("float64", "int32", ...) begins.  TypeError for
# another type, ValueError for another length or an array with gaps.  O(1).
cdef void *view_array(object array, str dtype, Py_ssize_t n) except NULL

# An empty expansion: f = 0.  `budget` of -1 is no bound; `eviction` an ExpansionEviction;
# `flags` of ExpansionFlag.  The kernel is copied.  NULL when memory is short or a number is out
# of range.  For EXPANSION_CHOOSE set choose_fn before the first block.
cdef Expansion *expansion_new(const Kernel *kernel, Py_ssize_t n_features, Py_ssize_t n_out,
                              Py_ssize_t budget, int eviction, int flags) noexcept nogil
# Give the memory back; NULL is allowed.
cdef void expansion_free(Expansion *f) noexcept nogil
# Slots in use.  O(1).
cdef Py_ssize_t expansion_count(const Expansion *f) noexcept nogil
# Point `x` at the row of a slot; valid until the next expansion_load or expansion_insert.
# STATUS_BAD_ARGUMENT for a slot that is not in use.  O(1).
cdef int expansion_row(const Expansion *f, Py_ssize_t slot, Row *x) noexcept nogil
# Number of a slot's row: first_id of its block plus its row of X; -1 after a merge.  O(1).
cdef Py_ssize_t expansion_id(const Expansion *f, Py_ssize_t slot) noexcept nogil
# Take rows order[first], ..., order[first + n - 1] of X (NULL: first, ...) as the block at work,
# in place of the one before: kernel values with all slots, in one product.  Row i counts as
# first_id + i, which only a precomputed kernel and expansion_id read.  A Status.  O(n slots
# features).
cdef int expansion_load(Expansion *f, const Rows *X, const Py_ssize_t *order, Py_ssize_t first,
                        Py_ssize_t n, Py_ssize_t first_id) noexcept nogil
# Forget the block.  O(its entries).
cdef void expansion_release(Expansion *f) noexcept nogil
# k(x, x) of example t of the block.  O(1).
cdef double expansion_self(const Expansion *f, Py_ssize_t t) noexcept nogil
# out[k] = f_k at example t of the block, for n_out outputs, with all changes so far.  O(n_out).
cdef void expansion_score(const Expansion *f, Py_ssize_t t, double *out) noexcept nogil
# Sum the scores of example t anew, slot by slot: equal values come out equal however the
# stream is cut into blocks.  O(slots n_out).
cdef void expansion_resum(Expansion *f, Py_ssize_t t) noexcept nogil
# f *= factor, and sq_norm with it.  O(1), but for a rare fold of the scale.
cdef void expansion_shrink(Expansion *f, double factor) noexcept nogil
# Add alpha[k] k(x, .) to output k, for example t of the block; a full buffer first lets one row
# go by its rule, or merges.  sq_norm (EXPANSION_NORM) takes both exactly.  A Status; nothing
# changed unless it is STATUS_OK.  O(slots + rest of the block), and with EXPANSION_NORM one block
# of kernel values for every 32 evictions.
cdef int expansion_insert(Expansion *f, Py_ssize_t t, const double *alpha) noexcept nogil
# out[k] = z_k at example t of the block (EXPANSION_TRACE).  O(n_out).
cdef void expansion_trace_score(const Expansion *f, Py_ssize_t t, double *out) noexcept nogil
# z <- factor decay z - eta_reg f, then f <- factor f: (35) and (43) of the source.  sq_norm and
# inner are left to the caller, who knows both by (49) to (52).  O(1).
cdef void expansion_trace_shrink(Expansion *f, double factor, double decay,
                                 double eta_reg) noexcept nogil
# expansion_insert for f and z; sq_norm and inner have the new term already and lose the evicted
# one.  A Status.
cdef int expansion_trace_insert(Expansion *f, Py_ssize_t t, const double *alpha,
                                const double *beta) noexcept nogil
# out[i * n_out + k] = f_k at row first + i of X, for n rows.  Nothing of f changes: any number
# of threads may call it at once.  A Status.  O(n slots features).
cdef int expansion_scores(const Expansion *f, const Rows *X, Py_ssize_t first, Py_ssize_t n,
                          double *out) noexcept nogil
# The same for z.
cdef int expansion_trace_scores(const Expansion *f, const Rows *X, Py_ssize_t first,
                                Py_ssize_t n, double *out) noexcept nogil

# All coefficients 0 over the rows of X, which must outlive the struct, as must `alpha` and
# `outputs` (n_out x n zeros each; NULL: memory of the struct's own).  Columns are float64 or
# float32, and at most cache_bytes of them are kept (256 at least).  The kernel is copied.  NULL
# when memory is short or a number is out of range.
cdef Fixed *fixed_new(const Kernel *kernel, const Rows *X, Py_ssize_t n_out, bint float64,
                      double cache_bytes, double *alpha, double *outputs) noexcept nogil
# Give the memory back; NULL is allowed.
cdef void fixed_free(Fixed *f) noexcept nogil
# Take up to FIXED_BLOCK different rows as the block at work; `rows` must live until fixed_flush.
# A Status.  O(count^2 features).
cdef int fixed_load(Fixed *f, const Py_ssize_t *rows, Py_ssize_t count) noexcept nogil
# outputs[:m] += delta * k(x_i, .) for every row of the block that changed (m = -1: all rows), by
# columns from the cache or computed together.  A Status.  O(changes m features).
cdef int fixed_flush(Fixed *f, Py_ssize_t m) noexcept nogil

# ------------------------------------------------------------- for the library

cdef int engine_reserve(Buffer *buf, Py_ssize_t slots, Py_ssize_t more) noexcept nogil
cdef int engine_reserve_victims(Buffer *buf) noexcept nogil
cdef int engine_set_outputs(Buffer *buf, Py_ssize_t n_out) noexcept nogil
cdef void engine_measure(Buffer *buf) noexcept nogil
cdef void engine_fold_beta(Buffer *buf) noexcept nogil
cdef void engine_average(Buffer *buf, double rho) noexcept nogil
cdef const double *engine_merge_tables() noexcept nogil
cdef double engine_merge_share(double m, double k) noexcept nogil

cdef int rows_init(RowSet *rows, const Kernel *kernel, const Rows *X, const Py_ssize_t *order,
                   Py_ssize_t n, bint f64, bint sparse, bint near) noexcept nogil
cdef void rows_free(RowSet *rows) noexcept nogil
cdef int rows_cross(RowSet *rows, RowSet *others, const Py_ssize_t *columns, Py_ssize_t count,
                    Py_ssize_t start, Py_ssize_t stop, double offset, void **out) noexcept nogil
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
