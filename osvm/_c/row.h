/* One row and one array of weights: dot products and updates, for every combination of types.
 *
 * osvm_row_... choose by the row's kind, a RowKind of core/typedefs.pxd; osvm_sparse_... and
 * osvm_pairs_... by the types of their arguments (C only).  The loops are in row_sparse.h and
 * row_dense.h. */
#ifndef OSVM_ROW_H
#define OSVM_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "simd.h"

/* Names end with the types they are for: values, columns, weights. */
#define OSVM_JOIN2_(a, b) a##_##b
#define OSVM_JOIN2(a, b) OSVM_JOIN2_(a, b)
#define OSVM_JOIN3(a, b, c) OSVM_JOIN2(OSVM_JOIN2(a, b), c)
#define SPARSE(f) OSVM_JOIN2(OSVM_JOIN3(f, V_NAME, J_NAME), W_NAME)
#define DENSE(f) OSVM_JOIN3(f, V_NAME, W_NAME)
#define WEIGHTS(f) OSVM_JOIN2(f, W_NAME)
#define WIDE(f) OSVM_JOIN3(f, W_NAME, J_NAME)

/* Call the loop for rows of this kind. */
#define OSVM_OF(f, types) OSVM_JOIN3(osvm_##f, types, W_NAME)
#define OSVM_LIST(...) __VA_ARGS__
#define OSVM_BY_KIND(f, ARGS, DENSE_ARGS)                                                          \
    switch (kind) {                                                                                \
    case 0:                                                                                        \
        return OSVM_OF(sparse_##f, f32_i32)((const float *)x, (const int32_t *)j, OSVM_LIST ARGS); \
    case 1:                                                                                        \
        return OSVM_OF(sparse_##f, f32_i64)((const float *)x, (const int64_t *)j, OSVM_LIST ARGS); \
    case 2:                                                                                        \
        return OSVM_OF(sparse_##f, f64_i32)((const double *)x, (const int32_t *)j,                 \
                                            OSVM_LIST ARGS);                                       \
    case 3:                                                                                        \
        return OSVM_OF(sparse_##f, f64_i64)((const double *)x, (const int64_t *)j,                 \
                                            OSVM_LIST ARGS);                                       \
    case 4: return OSVM_OF(dense_##f, f32)((const float *)x, OSVM_LIST DENSE_ARGS);                \
    default: return OSVM_OF(dense_##f, f64)((const double *)x, OSVM_LIST DENSE_ARGS);              \
    }

#define W float
#define W_NAME f32
#include "row_weights.h"
#undef W
#undef W_NAME
#define W double
#define W_NAME f64
#include "row_weights.h"
#undef W
#undef W_NAME
#undef SPARSE
#undef DENSE
#undef WEIGHTS
#undef WIDE

/* Whether columns are sorted and none repeats. */
#define OSVM_INCREASE(INT, NAME)                                                                   \
    static inline int osvm_columns_increase_##NAME(const INT *j, ptrdiff_t n) {                    \
        int good = 1;                                                                              \
        for (ptrdiff_t k = 1; k < n; k++) good &= j[k - 1] < j[k];                                 \
        return good;                                                                               \
    }
OSVM_INCREASE(int32_t, i32)
OSVM_INCREASE(int64_t, i64)

/* One entry of a row of any kind, for code that is not in a hot loop. */
static inline double osvm_row_at(int kind, const void *x, ptrdiff_t k) {
    return kind == 0 || kind == 1 || kind == 4 ? ((const float *)x)[k] : ((const double *)x)[k];
}
static inline ptrdiff_t osvm_row_column(int kind, const void *j, ptrdiff_t k) {
    return kind == 0 || kind == 2 ? ((const int32_t *)j)[k] : (ptrdiff_t)((const int64_t *)j)[k];
}
static inline int osvm_row_increases(int kind, const void *j, ptrdiff_t n) {
    return kind == 0 || kind == 2 ? osvm_columns_increase_i32((const int32_t *)j, n)
                                  : osvm_columns_increase_i64((const int64_t *)j, n);
}

static inline double osvm_row_sq_sum(int kind, const void *x, ptrdiff_t step, ptrdiff_t n) {
    double total = 0.0;
    for (ptrdiff_t k = 0; k < n; k++) {
        const double value = osvm_row_at(kind, x, k * step);
        total += value * value;
    }
    return total;
}

/* The dot product of two rows.  Rows of one matrix have loops of their own. */
#define OSVM_PAIRS(V, J, NAME)                                                                     \
    static inline double osvm_merge_##NAME(const V *a, const J *ja, ptrdiff_t na, const V *b,      \
                                           const J *jb, ptrdiff_t nb) {                            \
        double total = 0.0;                                                                        \
        ptrdiff_t p = 0, q = 0;                                                                    \
        while (p < na && q < nb) {                                                                 \
            if (ja[p] == jb[q]) {                                                                  \
                total += (double)a[p++] * (double)b[q++];                                          \
            } else if (ja[p] < jb[q]) {                                                            \
                p++;                                                                               \
            } else {                                                                               \
                q++;                                                                               \
            }                                                                                      \
        }                                                                                          \
        return total;                                                                              \
    }
OSVM_PAIRS(float, int32_t, f32_i32)
OSVM_PAIRS(float, int64_t, f32_i64)
OSVM_PAIRS(double, int32_t, f64_i32)
OSVM_PAIRS(double, int64_t, f64_i64)

#define OSVM_DENSE_PAIR(V, NAME)                                                                   \
    static inline double osvm_dense_pair_##NAME(const V *a, ptrdiff_t sa, const V *b,              \
                                                ptrdiff_t sb, ptrdiff_t n) {                       \
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;                                             \
        ptrdiff_t k = 0;                                                                           \
        for (; k + 4 <= n; k += 4) {                                                               \
            s0 += (double)a[k * sa] * (double)b[k * sb];                                           \
            s1 += (double)a[(k + 1) * sa] * (double)b[(k + 1) * sb];                               \
            s2 += (double)a[(k + 2) * sa] * (double)b[(k + 2) * sb];                               \
            s3 += (double)a[(k + 3) * sa] * (double)b[(k + 3) * sb];                               \
        }                                                                                          \
        for (; k < n; k++) s0 += (double)a[k * sa] * (double)b[k * sb];                            \
        return (s0 + s1) + (s2 + s3);                                                              \
    }
OSVM_DENSE_PAIR(float, f32)
OSVM_DENSE_PAIR(double, f64)

static inline double osvm_row_pair_dot(int kind, const void *a, const void *ja, ptrdiff_t na,
                                       int kind_b, const void *b, const void *jb, ptrdiff_t nb,
                                       ptrdiff_t step_a, ptrdiff_t step_b) {
    const ptrdiff_t n = na < nb ? na : nb;
    double total = 0.0;
    ptrdiff_t p, q;
    if (kind >= 4 && kind_b >= 4) {
        if (kind == 4 && kind_b == 4)
            return osvm_dense_pair_f32((const float *)a, step_a, (const float *)b, step_b, n);
        if (kind == 5 && kind_b == 5)
            return osvm_dense_pair_f64((const double *)a, step_a, (const double *)b, step_b, n);
        for (p = 0; p < n; p++)
            total += osvm_row_at(kind, a, p * step_a) * osvm_row_at(kind_b, b, p * step_b);
        return total;
    }
    if (kind >= 4) {
        for (q = 0; q < nb; q++)
            total += osvm_row_at(kind, a, osvm_row_column(kind_b, jb, q) * step_a) *
                     osvm_row_at(kind_b, b, q);
        return total;
    }
    if (kind_b >= 4) return osvm_row_pair_dot(kind_b, b, jb, nb, kind, a, ja, na, step_b, step_a);
    if (osvm_row_increases(kind, ja, na) && osvm_row_increases(kind_b, jb, nb)) {
        if (kind == kind_b) {
            switch (kind) {
            case 0: return osvm_merge_f32_i32((const float *)a, (const int32_t *)ja, na,
                                              (const float *)b, (const int32_t *)jb, nb);
            case 1: return osvm_merge_f32_i64((const float *)a, (const int64_t *)ja, na,
                                              (const float *)b, (const int64_t *)jb, nb);
            case 2: return osvm_merge_f64_i32((const double *)a, (const int32_t *)ja, na,
                                              (const double *)b, (const int32_t *)jb, nb);
            default: return osvm_merge_f64_i64((const double *)a, (const int64_t *)ja, na,
                                               (const double *)b, (const int64_t *)jb, nb);
            }
        }
        for (p = q = 0; p < na && q < nb;) {
            const ptrdiff_t i = osvm_row_column(kind, ja, p), j = osvm_row_column(kind_b, jb, q);
            if (i == j) total += osvm_row_at(kind, a, p) * osvm_row_at(kind_b, b, q);
            p += i <= j;
            q += j <= i;
        }
        return total;
    }
    for (p = 0; p < na; p++)
        for (q = 0; q < nb; q++)
            if (osvm_row_column(kind, ja, p) == osvm_row_column(kind_b, jb, q))
                total += osvm_row_at(kind, a, p) * osvm_row_at(kind_b, b, q);
    return total;
}

/* By the types of the arguments: values, columns, weights. */
#define OSVM_BY_WEIGHT(f, w) _Generic(*(w), float: f##_f32, double: f##_f64)
#define OSVM_BY_TYPES(f, x, j, w)                                                                  \
    _Generic(*(x),                                                                                 \
        float: _Generic(*(j), int32_t: OSVM_BY_WEIGHT(f##_f32_i32, w),                             \
                        int64_t: OSVM_BY_WEIGHT(f##_f32_i64, w)),                                  \
        double: _Generic(*(j), int32_t: OSVM_BY_WEIGHT(f##_f64_i32, w),                            \
                         int64_t: OSVM_BY_WEIGHT(f##_f64_i64, w)))
#define osvm_sparse_dot(x, j, n, w) OSVM_BY_TYPES(osvm_sparse_dot, x, j, w)(x, j, n, w)
#define osvm_sparse_dot_ahead(x, j, n, w, next_x, next_j)                                          \
    OSVM_BY_TYPES(osvm_sparse_dot_ahead, x, j, w)(x, j, n, w, next_x, next_j)
#define osvm_sparse_axpy(x, j, n, c, w) OSVM_BY_TYPES(osvm_sparse_axpy, x, j, w)(x, j, n, c, w)
#define osvm_sparse_axpy_norm(x, j, n, c, w)                                                       \
    OSVM_BY_TYPES(osvm_sparse_axpy_norm, x, j, w)(x, j, n, c, w)
#define osvm_sparse_axpy_both(x, j, n, c, d, w, u)                                                 \
    OSVM_BY_TYPES(osvm_sparse_axpy_both, x, j, w)(x, j, n, c, d, w, u)
#define osvm_pairs_dot_ahead(x, j, n, wu, next_x, next_j)                                          \
    OSVM_BY_TYPES(osvm_pairs_dot_ahead, x, j, wu)(x, j, n, wu, next_x, next_j)
#define osvm_pairs_axpy(x, j, n, c, d, wu)                                                         \
    OSVM_BY_TYPES(osvm_pairs_axpy, x, j, wu)(x, j, n, c, d, wu)
#endif
