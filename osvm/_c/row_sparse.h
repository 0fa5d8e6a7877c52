/* Loops over one sparse row, for one type of values (V), columns (J) and weights (W); see row.h.
 *
 * A row may repeat a column: entries are applied one after the other. */

/* The dot product with weights `stride` apart.  Four running sums, because one would wait for each
 * addition to finish; APART keeps the compiler from joining them.  With `ahead`, another row's
 * arrays are fetched on the way, at each step what lies there: asking for a line more than once is
 * cheaper than a loop of whole lines, whose end the processor guesses wrong once more for each
 * row. */
OSVM_FORCE_INLINE double SPARSE(osvm_strided_dot)(const V *x, const J *j, ptrdiff_t n, const W *w,
                                                  const ptrdiff_t stride, const int ahead,
                                                  const V *next_x, const J *next_j) {
    W a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        if (ahead) {
            OSVM_PREFETCH(next_x + k);
            OSVM_PREFETCH(next_j + k);
        }
        a0 += (W)x[k] * w[stride * (ptrdiff_t)j[k]];
        a1 += (W)x[k + 1] * w[stride * (ptrdiff_t)j[k + 1]];
        a2 += (W)x[k + 2] * w[stride * (ptrdiff_t)j[k + 2]];
        a3 += (W)x[k + 3] * w[stride * (ptrdiff_t)j[k + 3]];
        OSVM_APART(a0);
        OSVM_APART(a1);
        OSVM_APART(a2);
        OSVM_APART(a3);
    }
    if (ahead) {
        OSVM_PREFETCH(next_x + k);
        OSVM_PREFETCH(next_j + k);
    }
    for (; k < n; k++) a0 += (W)x[k] * w[stride * (ptrdiff_t)j[k]];
    return (double)((a0 + a1) + (a2 + a3));
}

static inline double SPARSE(osvm_sparse_dot)(const V *x, const J *j, ptrdiff_t n, const W *w) {
    return SPARSE(osvm_strided_dot)(x, j, n, w, 1, 0, x, j);
}

static inline double SPARSE(osvm_sparse_dot_ahead)(const V *x, const J *j, ptrdiff_t n, const W *w,
                                                   const void *next_x, const void *next_j) {
    return SPARSE(osvm_strided_dot)(x, j, n, w, 1, 1, (const V *)next_x, (const J *)next_j);
}

static inline void SPARSE(osvm_sparse_axpy)(const V *x, const J *j, ptrdiff_t n, double c, W *w) {
    const W c_ = (W)c;
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        w[j[k]] += c_ * (W)x[k];
        w[j[k + 1]] += c_ * (W)x[k + 1];
        w[j[k + 2]] += c_ * (W)x[k + 2];
        w[j[k + 3]] += c_ * (W)x[k + 3];
    }
    for (; k < n; k++) w[j[k]] += c_ * (W)x[k];
}

/* The same, returning the change of ||w||^2.  Summing new^2 - old^2 entry by entry stays exact, to
 * the precision of the weights, with repeated columns and with float32 rounding, where
 * 2c(w.x) + c^2||x||^2 would not. */
static inline double SPARSE(osvm_sparse_axpy_norm)(const V *x, const J *j, ptrdiff_t n, double c,
                                                   W *w) {
    const W c_ = (W)c;
    double change = 0.0;
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        W d[4];
        for (int i = 0; i < 4; i++) {
            const W before = w[j[k + i]], after = before + c_ * (W)x[k + i];
            w[j[k + i]] = after;
            d[i] = (after - before) * (after + before);
        }
        change += (double)((d[0] + d[1]) + (d[2] + d[3]));
    }
    for (; k < n; k++) {
        const W before = w[j[k]], after = before + c_ * (W)x[k];
        w[j[k]] = after;
        change += (double)((after - before) * (after + before));
    }
    return change;
}

/* Two arrays at once, which reads the row once. */
static inline void SPARSE(osvm_sparse_axpy_both)(const V *x, const J *j, ptrdiff_t n, double c,
                                                 double d, W *w, W *u) {
    const W c_ = (W)c, d_ = (W)d;
    for (ptrdiff_t k = 0; k < n; k++) {
        w[j[k]] += c_ * (W)x[k];
        u[j[k]] += d_ * (W)x[k];
    }
}

/* -------------------- two arrays that lie side by side: w[0] u[0] w[1] u[1] ...
 * `osvm_sparse_dot_ahead` of w, bit for bit; and w += c x with u += d x. */
static inline double SPARSE(osvm_pairs_dot_ahead)(const V *x, const J *j, ptrdiff_t n,
                                                  const W *wu, const void *next_x,
                                                  const void *next_j) {
    return SPARSE(osvm_strided_dot)(x, j, n, wu, 2, 1, (const V *)next_x, (const J *)next_j);
}

static inline void SPARSE(osvm_pairs_axpy)(const V *x, const J *j, ptrdiff_t n, double c, double d,
                                           W *wu) {
    const W c_ = (W)c, d_ = (W)d;
    for (ptrdiff_t k = 0; k < n; k++)
        WEIGHTS(osvm_add_pair)(wu + 2 * (ptrdiff_t)j[k], (W)x[k], c_, d_);
}

/* -------------------- K outputs, whose weights of one feature lie side by side */
static inline void SPARSE(osvm_sparse_dot_all)(const V *x, const J *j, ptrdiff_t n, const W *v,
                                               ptrdiff_t K, W *out, const void *next,
                                               ptrdiff_t n_next) {
    if (sizeof(V) == sizeof(W) &&
        WIDE(osvm_dot_all)((const W *)x, j, n, v, K, out, (const J *)next, n_next))
        return;
    for (ptrdiff_t k = 0; k < K; k++) out[k] = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const W value = (W)x[i], *column = v + j[i] * K;
        for (ptrdiff_t k = 0; k < K; k++) out[k] += value * column[k];
    }
}

static inline void SPARSE(osvm_sparse_axpy_all)(const V *x, const J *j, ptrdiff_t n, const W *c,
                                                ptrdiff_t K, W *v) {
    if (sizeof(V) == sizeof(W) && WIDE(osvm_axpy_all)((const W *)x, j, n, c, K, v)) return;
    for (ptrdiff_t i = 0; i < n; i++) {
        const W value = (W)x[i];
        W *column = v + j[i] * K;
        for (ptrdiff_t k = 0; k < K; k++) column[k] += value * c[k];
    }
}

/* One output of K; with `sq` the change of ||column||^2 is added to it. */
static inline void SPARSE(osvm_sparse_axpy_one)(const V *x, const J *j, ptrdiff_t n, double c,
                                                ptrdiff_t K, W *v, double *sq) {
    const W c_ = (W)c;
    double change = 0.0;
    if (!sq) {
        for (ptrdiff_t i = 0; i < n; i++) v[j[i] * K] += c_ * (W)x[i];
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        W *entry = v + j[i] * K;
        const double before = entry[0], after = entry[0] += c_ * (W)x[i];
        change += (after - before) * (after + before);
    }
    *sq += change;
}

/* Outputs `active`, two by two, which reads the columns half as often; with `fetch`, the same
 * entries of that matrix are fetched. */
OSVM_FORCE_INLINE void SPARSE(osvm_axpy_two)(const V *x, const J *j, ptrdiff_t n, W a, W b,
                                             ptrdiff_t K, W *v0, W *v1, const W *u0,
                                             const W *u1) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t at = j[i] * K;
        if (u0) {
            OSVM_PREFETCH(u0 + at);
            OSVM_PREFETCH(u1 + at);
        }
        v0[at] += a * (W)x[i];
        v1[at] += b * (W)x[i];
    }
}

static inline void SPARSE(osvm_sparse_axpy_few)(const V *x, const J *j, ptrdiff_t n,
                                                const double *c, const ptrdiff_t *active,
                                                ptrdiff_t count, ptrdiff_t K, W *v,
                                                const W *fetch) {
    ptrdiff_t m = 0;
    for (; m + 1 < count; m += 2) {
        const ptrdiff_t k = active[m], l = active[m + 1];
        const W a = (W)c[m], b = (W)c[m + 1];
        if (fetch)
            SPARSE(osvm_axpy_two)(x, j, n, a, b, K, v + k, v + l, fetch + k, fetch + l);
        else
            SPARSE(osvm_axpy_two)(x, j, n, a, b, K, v + k, v + l, NULL, NULL);
    }
    if (m == count) return;
    if (!fetch) {
        SPARSE(osvm_sparse_axpy_one)(x, j, n, c[m], K, v + active[m], NULL);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t at = active[m] + j[i] * K;
        OSVM_PREFETCH(fetch + at);
        v[at] += (W)c[m] * (W)x[i];
    }
}
