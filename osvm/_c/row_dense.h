/* Loops over one dense row, for one type of values (V) and weights (W); see row.h.
 *
 * Entries are `step` apart. */
static inline double DENSE(osvm_dense_dot)(const V *x, ptrdiff_t step, ptrdiff_t n, const W *w) {
    W a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    ptrdiff_t k = 0;
    if (step == 1)
        for (; k + 4 <= n; k += 4) {
            a0 += (W)x[k] * w[k];
            a1 += (W)x[k + 1] * w[k + 1];
            a2 += (W)x[k + 2] * w[k + 2];
            a3 += (W)x[k + 3] * w[k + 3];
        }
    for (; k < n; k++) a0 += (W)x[k * step] * w[k];
    return (double)((a0 + a1) + (a2 + a3));
}

static inline double DENSE(osvm_dense_dot_ahead)(const V *x, ptrdiff_t step, ptrdiff_t n,
                                                 const W *w, const void *next_x) {
    OSVM_PREFETCH(next_x);
    OSVM_PREFETCH((const char *)next_x + 64);
    return DENSE(osvm_dense_dot)(x, step, n, w);
}

static inline void DENSE(osvm_dense_axpy)(const V *x, ptrdiff_t step, ptrdiff_t n, double c,
                                          W *w) {
    const W c_ = (W)c;
    if (step == 1)
        for (ptrdiff_t k = 0; k < n; k++) w[k] += c_ * (W)x[k];
    else
        for (ptrdiff_t k = 0; k < n; k++) w[k] += c_ * (W)x[k * step];
}

static inline double DENSE(osvm_dense_axpy_norm)(const V *x, ptrdiff_t step, ptrdiff_t n, double c,
                                                 W *w) {
    const W c_ = (W)c;
    double change = 0.0;
    for (ptrdiff_t k = 0; k < n; k++) {
        const W before = w[k], after = before + c_ * (W)x[k * step];
        w[k] = after;
        change += ((double)after - (double)before) * ((double)after + (double)before);
    }
    return change;
}

/* -------------------- K outputs, whose weights of one feature lie side by side */
/* out[k] += x . v[k] for n entries, in their order.  Eight sums at a time stay in registers: in
 * memory each addition would wait until the one before it is stored. */
static inline void DENSE(osvm_dense_add_all)(const V *x, ptrdiff_t step, ptrdiff_t n, const W *v,
                                             ptrdiff_t K, W *out) {
    ptrdiff_t k = 0;
    for (; k + 8 <= K; k += 8) {
        W a[8];
        for (int m = 0; m < 8; m++) a[m] = out[k + m];
        for (ptrdiff_t i = 0; i < n; i++) {
            const W value = (W)x[i * step], *column = v + i * K + k;
            for (int m = 0; m < 8; m++) a[m] += value * column[m];
        }
        for (int m = 0; m < 8; m++) out[k + m] = a[m];
    }
    for (; k + 2 <= K; k += 2) {
        W a = out[k], b = out[k + 1];
        for (ptrdiff_t i = 0; i < n; i++) {
            const W value = (W)x[i * step], *column = v + i * K + k;
            a += value * column[0];
            b += value * column[1];
        }
        out[k] = a, out[k + 1] = b;
    }
    if (k < K) {
        W a = out[k];
        for (ptrdiff_t i = 0; i < n; i++) a += (W)x[i * step] * v[i * K + k];
        out[k] = a;
    }
}

static inline void DENSE(osvm_dense_dot_all)(const V *x, ptrdiff_t step, ptrdiff_t n, const W *v,
                                             ptrdiff_t K, W *out) {
    for (ptrdiff_t k = 0; k < K; k++) out[k] = 0;
    for (ptrdiff_t i = 0; i < n; i += 64)  /* whose weights are in the cache for all outputs */
        DENSE(osvm_dense_add_all)(x + i * step, step, n - i < 64 ? n - i : 64, v + i * K, K, out);
}

static inline void DENSE(osvm_dense_axpy_all)(const V *x, ptrdiff_t step, ptrdiff_t n, const W *c,
                                              ptrdiff_t K, W *v) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const W value = (W)x[i * step];
        W *column = v + i * K;
        for (ptrdiff_t k = 0; k < K; k++) column[k] += value * c[k];
    }
}

/* One output of K; with `sq` the change of ||column||^2 is added to it. */
static inline void DENSE(osvm_dense_axpy_one)(const V *x, ptrdiff_t step, ptrdiff_t n, double c,
                                              ptrdiff_t K, W *v, double *sq) {
    const W c_ = (W)c;
    double change = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        W *entry = v + i * K;
        const double before = entry[0], after = entry[0] += c_ * (W)x[i * step];
        change += (after - before) * (after + before);
    }
    if (sq) *sq += change;
}

static inline void DENSE(osvm_dense_axpy_few)(const V *x, ptrdiff_t step, ptrdiff_t n,
                                              const double *c, const ptrdiff_t *active,
                                              ptrdiff_t count, ptrdiff_t K, W *v) {
    for (ptrdiff_t m = 0; m < count; m++)
        DENSE(osvm_dense_axpy_one)(x, step, n, c[m], K, v + active[m], NULL);
}
