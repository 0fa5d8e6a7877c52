/* Rows of every kind against weights of one type (W); see row.h.
 *
 * kind is a RowKind of core/typedefs.pxd; j is NULL for dense rows, whose entries are `step`
 * apart. */
#define V float
#define V_NAME f32
#include "row_dense.h"
#define J int32_t
#define J_NAME i32
#include "row_sparse.h"
#undef J
#undef J_NAME
#define J int64_t
#define J_NAME i64
#include "row_sparse.h"
#undef V
#undef V_NAME
#define V double
#define V_NAME f64
#include "row_dense.h"
#include "row_sparse.h"
#undef J
#undef J_NAME
#define J int32_t
#define J_NAME i32
#include "row_sparse.h"
#undef J
#undef J_NAME
#undef V
#undef V_NAME

static inline double WEIGHTS(osvm_row_dot)(int kind, const void *x, const void *j, ptrdiff_t n,
                                           ptrdiff_t step, const W *w) {
    OSVM_BY_KIND(dot, (n, w), (step, n, w))
}

static inline void WEIGHTS(osvm_row_axpy)(int kind, const void *x, const void *j, ptrdiff_t n,
                                          ptrdiff_t step, double c, W *w) {
    OSVM_BY_KIND(axpy, (n, c, w), (step, n, c, w))
}

static inline double WEIGHTS(osvm_row_axpy_norm)(int kind, const void *x, const void *j,
                                                 ptrdiff_t n, ptrdiff_t step, double c, W *w) {
    OSVM_BY_KIND(axpy_norm, (n, c, w), (step, n, c, w))
}

/* The same as osvm_row_dot, fetching another row of the same kind on the way. */
static inline double WEIGHTS(osvm_row_dot_ahead)(int kind, const void *x, const void *j,
                                                 ptrdiff_t n, ptrdiff_t step, const W *w,
                                                 const void *next_x, const void *next_j) {
    OSVM_BY_KIND(dot_ahead, (n, w, next_x, next_j), (step, n, w, next_x))
}

/* -------------------- K outputs, whose weights of one feature lie side by side
 * next: columns of a row of the same matrix, whose weights are fetched (n_next may be 0) */
static inline void WEIGHTS(osvm_row_dot_all)(int kind, const void *x, const void *j, ptrdiff_t n,
                                             ptrdiff_t step, const W *v, ptrdiff_t K, W *out,
                                             const void *next, ptrdiff_t n_next) {
    OSVM_BY_KIND(dot_all, (n, v, K, out, next, n_next), (step, n, v, K, out))
}

static inline void WEIGHTS(osvm_row_axpy_all)(int kind, const void *x, const void *j, ptrdiff_t n,
                                              ptrdiff_t step, const W *c, ptrdiff_t K, W *v) {
    OSVM_BY_KIND(axpy_all, (n, c, K, v), (step, n, c, K, v))
}

static inline void WEIGHTS(osvm_row_axpy_one)(int kind, const void *x, const void *j, ptrdiff_t n,
                                              ptrdiff_t step, double c, ptrdiff_t K, W *v,
                                              double *sq) {
    OSVM_BY_KIND(axpy_one, (n, c, K, v, sq), (step, n, c, K, v, sq))
}

static inline void WEIGHTS(osvm_row_axpy_few)(int kind, const void *x, const void *j, ptrdiff_t n,
                                              ptrdiff_t step, const double *c,
                                              const ptrdiff_t *active, ptrdiff_t count,
                                              ptrdiff_t K, W *v, const W *fetch) {
    OSVM_BY_KIND(axpy_few, (n, c, active, count, K, v, fetch),
                 (step, n, c, active, count, K, v))
}

/* -------------------- n weights `stride` apart: O(d) passes, all of them rare */
OSVM_FORCE_INLINE double WEIGHTS(osvm_array_sq_norm)(const W *v, ptrdiff_t n, ptrdiff_t stride) {
    double total = 0.0;
    for (ptrdiff_t k = 0; k < n; k++) total += (double)v[k * stride] * (double)v[k * stride];
    return total;
}

OSVM_FORCE_INLINE void WEIGHTS(osvm_array_scale)(W *v, ptrdiff_t n, ptrdiff_t stride,
                                                 double factor) {
    if (factor == 0.0) {  /* also where an entry is infinite */
        for (ptrdiff_t k = 0; k < n; k++) v[k * stride] = 0;
        return;
    }
    for (ptrdiff_t k = 0; k < n; k++) v[k * stride] = (W)(v[k * stride] * factor);
}

OSVM_FORCE_INLINE void WEIGHTS(osvm_array_subtract)(W *u, const W *v, ptrdiff_t n,
                                                    ptrdiff_t stride, double factor) {
    for (ptrdiff_t k = 0; k < n; k++)
        u[k * stride] = (W)(u[k * stride] - factor * v[k * stride]);
}
