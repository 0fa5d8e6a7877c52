"""Values of kernel columns: blocks of columns at a time, for dense and sparse rows.

- dense rows: one matrix product (BLAS) for a whole block of columns, then the kernel on
  the products, chunk by chunk so that the temporaries stay in the cache;
- rbf in few dimensions: distances directly, fused with a vectorised exp, and on request
  added up without ever being stored;
- sparse rows: the block's rows are laid out feature-major and every row of the matrix is
  multiplied with all of them at once; the matrix is not copied;
- a precomputed matrix is read.

Invariants
- A call computes at most MAX_BLOCK columns; listed rows (`rows` not NULL) are as few.
- Nothing here allocates but the layout of a sparse block; the status is -1 without memory.
"""
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from osvm.core.kernel cimport kernel_from_dots, kernel_self
from osvm.core.rows cimport row_index, row_value, rows_get
from osvm.core.typedefs cimport (
    ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, Row, float32_t, float64_t, index_t, value_t, weight_t,
)

import scipy.linalg.cython_blas as _blas

cdef extern from "../_c/columns.h" nogil:
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
    void osvm_block_axpy_f32(float *acc, Py_ssize_t width, Py_ssize_t count,
                             const int32_t *local, const float *values, const float *w)
    void osvm_block_axpy_f64(double *acc, Py_ssize_t width, Py_ssize_t count,
                             const int32_t *local, const double *values, const double *w)

cdef object _sgemm = _blas.__pyx_capi__["sgemm"]
cdef object _dgemm = _blas.__pyx_capi__["dgemm"]
blas_sgemm = <sgemm_t> PyCapsule_GetPointer(_sgemm, PyCapsule_GetName(_sgemm))
blas_dgemm = <dgemm_t> PyCapsule_GetPointer(_dgemm, PyCapsule_GetName(_dgemm))


# ------------------------------------------------------------- typed helpers

cdef inline void gemm(weight_t *a, weight_t *b, weight_t *c, int m, int n, int k,
                      int ldc) noexcept nogil:
    """c (n columns of m values, ldc apart) = a b' for row-major a (m x k), b (n x k)."""
    cdef weight_t one = 1, zero = 0
    if m == 0 or n == 0:
        return
    if weight_t is float32_t:
        blas_sgemm(b"T", b"N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &ldc)
    else:
        blas_dgemm(b"T", b"N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &ldc)


cdef inline Py_ssize_t pick_local(const value_t *values, const index_t *indices, Py_ssize_t n,
                                  double scale, const int32_t *local, int32_t *lines,
                                  weight_t *picked) noexcept nogil:
    """The row's entries in features of the current block; how many there are."""
    cdef Py_ssize_t k, found = 0
    cdef int32_t line
    for k in range(n):
        line = local[indices[k]]
        if line >= 0:
            lines[found] = line
            picked[found] = <weight_t> (scale * values[k])
            found += 1
    return found


cdef inline Py_ssize_t pick_row(const Row *x, const int32_t *local, int32_t *lines,
                                weight_t *picked) noexcept nogil:
    if x.kind == ROW_F32_I32:
        return pick_local(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                          x.scale, local, lines, picked)
    if x.kind == ROW_F64_I32:
        return pick_local(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                          x.scale, local, lines, picked)
    if x.kind == ROW_F32_I64:
        return pick_local(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                          x.scale, local, lines, picked)
    return pick_local(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                      x.scale, local, lines, picked)


cdef inline void finish(const Values *v, void *out, Py_ssize_t n, Py_ssize_t column,
                        Py_ssize_t start, const Py_ssize_t *rows) noexcept nogil:
    """Dot products to kernel values."""
    cdef Py_ssize_t i
    cdef float near32[CHUNK]
    cdef double near64[CHUNK]
    cdef float *sq32
    cdef double *sq64
    if v.wide:
        sq64 = <double *> v.sq + start
        if rows != NULL:
            sq64 = near64
            for i in range(n):
                near64[i] = (<double *> v.sq)[rows[start + i]]
        kernel_from_dots(&v.kernel, <double *> out, n, v.sq64[column], sq64)
        if v.offset != 0.0:
            for i in range(n):
                (<double *> out)[i] += v.offset
    else:
        sq32 = <float *> v.sq + start
        if rows != NULL:
            sq32 = near32
            for i in range(n):
                near32[i] = (<float *> v.sq)[rows[start + i]]
        kernel_from_dots(&v.kernel, <float *> out, n, v.sq64[column], sq32)
        if v.offset != 0.0:
            for i in range(n):
                (<float *> out)[i] += <float> v.offset


cdef inline void dense_columns(Values *v, weight_t *x, const Py_ssize_t *columns,
                               Py_ssize_t count, Py_ssize_t start, Py_ssize_t stop,
                               const Py_ssize_t *rows, void **out) noexcept nogil:
    """One gemm per chunk of rows, then the kernel on each column's piece."""
    cdef weight_t *block = <weight_t *> v.block
    cdef weight_t *other = <weight_t *> v.gathered
    cdef weight_t *left
    cdef Py_ssize_t d = v.d, k, r, m, i
    for k in range(count):
        memcpy(other + k * d, x + columns[k] * d, d * sizeof(weight_t))
    r = start
    while r < stop:
        m = stop - r if stop - r < CHUNK else CHUNK
        if rows == NULL:
            left = x + r * d
        else:  # gathered behind the block's own rows; m <= MAX_BLOCK
            left = other + MAX_BLOCK * d
            for i in range(m):
                memcpy(left + i * d, x + rows[r + i] * d, d * sizeof(weight_t))
        gemm(left, other, block, <int> m, <int> count, <int> d, CHUNK)
        for k in range(count):
            finish(v, block + k * CHUNK, m, columns[k], r, rows)
            memcpy(<weight_t *> out[k] + r - start, block + k * CHUNK, m * sizeof(weight_t))
        r += m


cdef inline void nearby_columns(Values *v, weight_t *x, const Py_ssize_t *columns,
                                Py_ssize_t count, Py_ssize_t start, Py_ssize_t stop,
                                const Py_ssize_t *rows, void **out) noexcept nogil:
    """Distances in few dimensions."""
    cdef weight_t *xt = <weight_t *> v.xt
    cdef weight_t *part = <weight_t *> v.block
    cdef Py_ssize_t d = v.d, k, i, j, ld = v.n, m = stop - start
    cdef double gamma = v.kernel.gamma
    cdef weight_t *target
    cdef weight_t extra = <weight_t> v.offset
    if rows == NULL:
        part = xt + start
    else:
        ld = m
        for j in range(d):
            for i in range(m):
                part[j * m + i] = x[rows[start + i] * d + j]
    for k in range(count):
        target = <weight_t *> out[k]
        if weight_t is float32_t:
            osvm_rbf_near_f32(target, m, d, part, ld, x + columns[k] * d, <float> gamma)
        else:
            osvm_rbf_near_f64(target, m, d, part, ld, x + columns[k] * d, gamma)
        if v.offset != 0.0:
            for i in range(m):
                target[i] += extra


cdef inline void sparse_columns(Values *v, weight_t *lines, Py_ssize_t width,
                                const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                                Py_ssize_t stop, const Py_ssize_t *rows, int32_t *picks,
                                weight_t *picked, void **out) noexcept nogil:
    """Every row of the matrix against all lines of the block at once."""
    cdef weight_t *block = <weight_t *> v.block
    cdef weight_t acc[MAX_BLOCK]
    cdef Row row
    cdef Py_ssize_t r = start, m, i, k, found
    while r < stop:
        m = stop - r if stop - r < CHUNK else CHUNK
        for i in range(m):
            rows_get(v.rows, v.order[r + i if rows == NULL else rows[r + i]], &row)
            found = pick_row(&row, v.local, picks, picked)
            memset(acc, 0, width * sizeof(weight_t))
            if weight_t is float32_t:
                osvm_block_axpy_f32(acc, width, found, picks, picked, lines)
            else:
                osvm_block_axpy_f64(acc, width, found, picks, picked, lines)
            for k in range(count):
                block[k * CHUNK + i] = acc[k]
        for k in range(count):
            finish(v, block + k * CHUNK, m, columns[k], r, rows)
            memcpy(<weight_t *> out[k] + r - start, block + k * CHUNK, m * sizeof(weight_t))
        r += m


cdef inline void copied_columns(weight_t *x, Py_ssize_t n, const Py_ssize_t *columns,
                                Py_ssize_t count, Py_ssize_t start, Py_ssize_t stop,
                                const Py_ssize_t *rows, double offset,
                                void **out) noexcept nogil:
    """Read a precomputed matrix (symmetric, so its rows are its columns)."""
    cdef Py_ssize_t k, i
    cdef weight_t *target
    for k in range(count):
        target = <weight_t *> out[k]
        for i in range(start, stop):
            target[i - start] = <weight_t> (
                x[columns[k] * n + (i if rows == NULL else rows[i])] + offset)


cdef int compute_sparse(Values *v, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                        Py_ssize_t stop, const Py_ssize_t *rows,
                        void **out) noexcept nogil:
    """Lay the block's rows out feature-major, multiply, take the layout back."""
    cdef Py_ssize_t width = (count + 7) // 8 * 8, k, p, j, n_lines = 0
    cdef Py_ssize_t size = 8 if v.wide else 4
    cdef Row row
    cdef void *lines
    for k in range(count):
        rows_get(v.rows, v.order[columns[k]], &row)
        for p in range(row.count):
            j = row_index(&row, p)
            if v.local[j] < 0:
                v.local[j] = <int32_t> n_lines
                n_lines += 1
    lines = calloc(n_lines * width + 1, size)
    if lines != NULL:
        for k in range(count):
            rows_get(v.rows, v.order[columns[k]], &row)
            for p in range(row.count):
                j = <Py_ssize_t> v.local[row_index(&row, p)] * width + k
                if v.wide:
                    (<double *> lines)[j] += row_value(&row, p)
                else:
                    (<float *> lines)[j] += <float> row_value(&row, p)
        if v.wide:
            sparse_columns(v, <double *> lines, width, columns, count, start, stop, rows,
                           v.picks, <double *> v.picked, out)
        else:
            sparse_columns(v, <float *> lines, width, columns, count, start, stop, rows,
                           v.picks, <float *> v.picked, out)
    for k in range(count):
        rows_get(v.rows, v.order[columns[k]], &row)
        for p in range(row.count):
            v.local[row_index(&row, p)] = -1
    if lines == NULL:
        return -1
    free(lines)
    return 0


# ------------------------------------------------------------------ for the owner

cdef int values_compute(Values *v, const Py_ssize_t *columns, Py_ssize_t count,
                        Py_ssize_t start, Py_ssize_t stop, const Py_ssize_t *rows,
                        void **out) noexcept nogil:
    """Values start..stop of these columns (of the listed rows, when there is a list).

    0, or -1 without memory; a Python function is not called.
    """
    if count == 0 or stop <= start:
        return 0
    if v.mode == DENSE:
        if v.wide:
            dense_columns(v, <double *> v.x, columns, count, start, stop, rows, out)
        else:
            dense_columns(v, <float *> v.x, columns, count, start, stop, rows, out)
    elif v.mode == NEARBY:
        if v.wide:
            nearby_columns(v, <double *> v.x, columns, count, start, stop, rows, out)
        else:
            nearby_columns(v, <float *> v.x, columns, count, start, stop, rows, out)
    elif v.mode == SPARSE:
        return compute_sparse(v, columns, count, start, stop, rows, out)
    elif v.mode == PRECOMPUTED:
        if v.wide:
            copied_columns(<double *> v.x, v.n, columns, count, start, stop, rows,
                           v.offset, out)
        else:
            copied_columns(<float *> v.x, v.n, columns, count, start, stop, rows,
                           v.offset, out)
    return 0


cdef double values_diagonal(const Values *v, Py_ssize_t i) noexcept nogil:
    """k(x_i, x_i), NaN for a function."""
    cdef Py_ssize_t at
    if v.mode == PRECOMPUTED:
        at = i * v.n + i
        return v.offset + ((<double *> v.x)[at] if v.wide
                           else <double> (<float *> v.x)[at])
    if v.mode == FUNCTION:
        return NAN
    return v.offset + kernel_self(&v.kernel, v.sq64[i])


cdef void values_sum(const Values *v, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                     const double *delta, Py_ssize_t count) noexcept nogil:
    """o[:m] += sum_k delta[k] columns[k][:m], without storing a column (few dimensions)."""
    cdef const_float_p narrow[MAX_BLOCK]
    cdef const_double_p wide[MAX_BLOCK]
    cdef Py_ssize_t k
    if v.wide:
        for k in range(count):
            wide[k] = <double *> v.x + columns[k] * v.d
        osvm_rbf_sum_f64(o, m, v.d, <double *> v.xt, v.n, wide, delta, count,
                         v.kernel.gamma)
    else:
        for k in range(count):
            narrow[k] = <float *> v.x + columns[k] * v.d
        osvm_rbf_sum_f32(o, m, v.d, <float *> v.xt, v.n, narrow, delta, count,
                         <float> v.kernel.gamma)


cdef void values_norms(Values *v, double *line) noexcept nogil:
    """Squared norms of sparse rows; `line` has room for d zeros and is left so.

    Repeated columns add up, so a norm is the row's product with itself.
    """
    cdef Py_ssize_t p, k
    cdef Row row
    cdef double total
    for p in range(v.n):
        rows_get(v.rows, v.order[p], &row)
        total = 0.0
        for k in range(row.count):
            line[row_index(&row, k)] += row_value(&row, k)
        for k in range(row.count):
            total += row_value(&row, k) * line[row_index(&row, k)]
        for k in range(row.count):
            line[row_index(&row, k)] = 0.0
        v.sq64[p] = total
