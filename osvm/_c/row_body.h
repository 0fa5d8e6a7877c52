/* The loops of row.h for one type of values (V), columns (J) and weights (W).
 *
 * Four running sums, because one would wait for each addition to finish; APART keeps the
 * compiler from joining them.  `_ahead` asks for another row's arrays on the way, at each step
 * what lies there: asking for a line more than once is cheaper than a loop of whole lines, whose
 * end the processor guesses wrong once more for each row. */
static inline double NAME(osvm_sparse_dot)(const V *x, const J *j, ptrdiff_t n, const W *w) {
    W a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        a0 += (W)x[k] * w[j[k]];
        a1 += (W)x[k + 1] * w[j[k + 1]];
        a2 += (W)x[k + 2] * w[j[k + 2]];
        a3 += (W)x[k + 3] * w[j[k + 3]];
        OSVM_APART(a0);
        OSVM_APART(a1);
        OSVM_APART(a2);
        OSVM_APART(a3);
    }
    for (; k < n; k++) a0 += (W)x[k] * w[j[k]];
    return (double)((a0 + a1) + (a2 + a3));
}

static inline double NAME(osvm_sparse_dot_ahead)(const V *x, const J *j, ptrdiff_t n, const W *w,
                                                 const V *next_x, const J *next_j) {
    W a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        OSVM_PREFETCH(next_x + k);
        OSVM_PREFETCH(next_j + k);
        a0 += (W)x[k] * w[j[k]];
        a1 += (W)x[k + 1] * w[j[k + 1]];
        a2 += (W)x[k + 2] * w[j[k + 2]];
        a3 += (W)x[k + 3] * w[j[k + 3]];
        OSVM_APART(a0);
        OSVM_APART(a1);
        OSVM_APART(a2);
        OSVM_APART(a3);
    }
    OSVM_PREFETCH(next_x + k);
    OSVM_PREFETCH(next_j + k);
    for (; k < n; k++) a0 += (W)x[k] * w[j[k]];
    return (double)((a0 + a1) + (a2 + a3));
}

static inline void NAME(osvm_sparse_axpy)(const V *x, const J *j, ptrdiff_t n, double c, W *w) {
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
static inline double NAME(osvm_sparse_axpy_norm)(const V *x, const J *j, ptrdiff_t n, double c,
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
