# A matrix as rows: making views, from row to row, and access to single entries.
#
# A row is sparse (values and their column numbers) or dense (values only), in
# any of the six combinations of types; `kind` says which, and each operation
# reads it once per row.  Loops over examples are therefore written once, with
# no type parameter; the loops over non-zeros are in row.pxd.
#
# Invariants
# - a Row never owns memory; the arrays behind it outlive it;
# - columns of a sparse row may be unsorted and may repeat (a repeated column
#   means the sum of its values); they are validated before a Row is made;
# - `scale` multiplies every value, so that unit-norm inputs need no copy of X.
from libc.stdint cimport int32_t, int64_t

from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Row, Rows,
    csr_index_t, float32_t, float64_t, value_t,
)

cdef extern from "../_c/row.h" nogil:
    void OSVM_PREFETCH(const void *address)
    bint osvm_columns_increase_i32(const int32_t *j, Py_ssize_t n)
    bint osvm_columns_increase_i64(const int64_t *j, Py_ssize_t n)
    double osvm_row_sq_sum(int kind, const void *x, Py_ssize_t step, Py_ssize_t n)
    double osvm_row_pair_dot(int kind, const void *a, const void *ja, Py_ssize_t na, int kind_b,
                             const void *b, const void *jb, Py_ssize_t nb, Py_ssize_t step_a,
                             Py_ssize_t step_b)


# ------------------------------------------------------------- making views

cdef inline void rows_init_csr(Rows *X, const value_t *values, const csr_index_t *indices,
                               const csr_index_t *indptr, Py_ssize_t n_rows,
                               Py_ssize_t n_features) noexcept nogil:
    """View the arrays of a CSR matrix, of any signed integers of 4 or 8 bytes; not checked."""
    rows_init_dense(X, values, n_rows, n_features, 0, 1)
    X.indices = <const void *> indices
    X.indptr = <const void *> indptr
    if value_t is float32_t:
        X.kind = ROW_F32_I32 if sizeof(csr_index_t) == 4 else ROW_F32_I64
    else:
        X.kind = ROW_F64_I32 if sizeof(csr_index_t) == 4 else ROW_F64_I64


cdef inline void rows_init_dense(Rows *X, const value_t *values, Py_ssize_t n_rows,
                                 Py_ssize_t n_features, Py_ssize_t row_step,
                                 Py_ssize_t step) noexcept nogil:
    """View a dense array; the steps count elements from row to row and along a row."""
    X.struct_size = sizeof(Rows)
    X.values = <const void *> values
    X.indices = NULL
    X.indptr = NULL
    X.n_rows = n_rows
    X.n_features = n_features
    X.row_step = row_step
    X.step = step
    X.row_scale = NULL
    X.kind = ROW_F32_DENSE if value_t is float32_t else ROW_F64_DENSE


cdef inline void rows_get(const Rows *X, Py_ssize_t i, Row *row) noexcept nogil:
    """Point `row` at row i of X."""
    cdef Py_ssize_t start
    row.struct_size = sizeof(Row)
    row.kind = X.kind
    row.step = X.step
    row.scale = 1.0 if X.row_scale == NULL else X.row_scale[i]
    if X.kind == ROW_F32_I32:
        start = (<const int32_t *> X.indptr)[i]
        row.count = (<const int32_t *> X.indptr)[i + 1] - start
        row.values = <const void *> (<const float32_t *> X.values + start)
        row.indices = <const void *> (<const int32_t *> X.indices + start)
    elif X.kind == ROW_F64_I32:
        start = (<const int32_t *> X.indptr)[i]
        row.count = (<const int32_t *> X.indptr)[i + 1] - start
        row.values = <const void *> (<const float64_t *> X.values + start)
        row.indices = <const void *> (<const int32_t *> X.indices + start)
    elif X.kind == ROW_F32_I64:
        start = <Py_ssize_t> (<const int64_t *> X.indptr)[i]
        row.count = <Py_ssize_t> (<const int64_t *> X.indptr)[i + 1] - start
        row.values = <const void *> (<const float32_t *> X.values + start)
        row.indices = <const void *> (<const int64_t *> X.indices + start)
    elif X.kind == ROW_F64_I64:
        start = <Py_ssize_t> (<const int64_t *> X.indptr)[i]
        row.count = <Py_ssize_t> (<const int64_t *> X.indptr)[i + 1] - start
        row.values = <const void *> (<const float64_t *> X.values + start)
        row.indices = <const void *> (<const int64_t *> X.indices + start)
    elif X.kind == ROW_F32_DENSE:
        row.count = X.n_features
        row.values = <const void *> (<const float32_t *> X.values + i * X.row_step)
        row.indices = NULL
    else:
        row.count = X.n_features
        row.values = <const void *> (<const float64_t *> X.values + i * X.row_step)
        row.indices = NULL


cdef inline void rows_prefetch(const Rows *X, Py_ssize_t i) noexcept nogil:
    """Ask for row i's first cache lines; call a few rows ahead of the use."""
    cdef Row row
    cdef Py_ssize_t offset
    cdef Py_ssize_t n_bytes
    rows_get(X, i, &row)
    n_bytes = row.count * (4 if row.kind == ROW_F32_I32 or row.kind == ROW_F32_I64
                           or row.kind == ROW_F32_DENSE else 8)
    if n_bytes > 1024:
        n_bytes = 1024
    for offset in range(0, n_bytes, 64):
        OSVM_PREFETCH(<const char *> row.values + offset)
    if row.indices != NULL:
        n_bytes = row.count * (4 if row.kind == ROW_F32_I32 or row.kind == ROW_F64_I32 else 8)
        if n_bytes > 1024:
            n_bytes = 1024
        for offset in range(0, n_bytes, 64):
            OSVM_PREFETCH(<const char *> row.indices + offset)


cdef inline void rows_prefetch_start(const Rows *X, Py_ssize_t i) noexcept nogil:
    """Ask for what rows_get reads of row i; call well ahead of rows_get."""
    if X.kind == ROW_F32_I32 or X.kind == ROW_F64_I32:
        OSVM_PREFETCH(<const int32_t *> X.indptr + i)
    elif X.indptr != NULL:
        OSVM_PREFETCH(<const int64_t *> X.indptr + i)
    if X.row_scale != NULL:
        OSVM_PREFETCH(X.row_scale + i)


# ---------------------------------------------------- access to single entries
# For code that is not in a hot loop over non-zeros (kernels on two rows).

cdef inline Py_ssize_t row_index(const Row *x, Py_ssize_t k) noexcept nogil:
    """Column of the k-th stored value."""
    if x.indices == NULL:
        return k
    if x.kind == ROW_F32_I32 or x.kind == ROW_F64_I32:
        return (<const int32_t *> x.indices)[k]
    return <Py_ssize_t> (<const int64_t *> x.indices)[k]


cdef inline double row_value(const Row *x, Py_ssize_t k) noexcept nogil:
    """The k-th stored value, scaled."""
    if x.kind == ROW_F32_I32 or x.kind == ROW_F32_I64 or x.kind == ROW_F32_DENSE:
        return x.scale * (<const float32_t *> x.values)[k * x.step]
    return x.scale * (<const float64_t *> x.values)[k * x.step]


cdef inline bint row_is_sorted(const Row *x) noexcept nogil:
    """True for dense rows, and for sparse ones with strictly increasing columns."""
    if x.indices == NULL:
        return True
    if x.kind == ROW_F32_I32 or x.kind == ROW_F64_I32:
        return osvm_columns_increase_i32(<const int32_t *> x.indices, x.count)
    return osvm_columns_increase_i64(<const int64_t *> x.indices, x.count)


cdef inline double row_sq_norm(const Row *x) noexcept nogil:
    """||x||^2 of a row without repeated columns."""
    return x.scale * x.scale * osvm_row_sq_sum(x.kind, x.values, x.step, x.count)


cdef inline double row_dot_row(const Row *x, const Row *z) noexcept nogil:
    """x.z of any two rows; sparse rows with repeated or unsorted columns cost a product."""
    return x.scale * z.scale * osvm_row_pair_dot(
        x.kind, x.values, x.indices, x.count, z.kind, z.values, z.indices, z.count, x.step,
        z.step)
