/* Steps of a support vector machine inside a small working set, in vector registers.
 *
 * The set has `count` rows, padded to a multiple of 4 (`stride`); padding has no room to
 * move and is never chosen.  g = y - f, s = signed coefficient in [low, high]; line k of
 * `gram` holds k(x_k, .) of the set.
 */
#ifndef OSVM_PAIRS_H
#define OSVM_PAIRS_H

#include "dispatch.h"

#define OSVM_FAR 1e300

/* One row's bounds as masks: may it grow, may it fall? */
OSVM_FORCE_INLINE void osvm_set_masks(int64_t *up, int64_t *down, double s, double low,
                                      double high) {
    *up = s < high ? -1 : 0;
    *down = s > low ? -1 : 0;
}

/* Largest g that may grow (its place), and the smallest g that may fall. */
OSVM_FORCE_INLINE ptrdiff_t osvm_find_top(ptrdiff_t stride, const double *g, const int64_t *up,
                                          const int64_t *down, double *best, double *least) {
#if OSVM_VECTORS
    osvm_f64x4 top = {-OSVM_FAR, -OSVM_FAR, -OSVM_FAR, -OSVM_FAR}, bottom = -top;
    const osvm_f64x4 far = bottom;
    osvm_i64x4 at = {-1, -1, -1, -1}, place = {0, 1, 2, 3};
    ptrdiff_t k, found = -1;
    for (k = 0; k < stride; k += 4) {
        const osvm_f64x4 value = *(const osvm_f64x4 *)(g + k);
        const osvm_f64x4 high = OSVM_PICK(*(const osvm_i64x4 *)(up + k), value, -far);
        const osvm_f64x4 low = OSVM_PICK(*(const osvm_i64x4 *)(down + k), value, far);
        const osvm_i64x4 better = high > top;
        top = OSVM_PICK(better, high, top);
        at = OSVM_PICK_I(better, place, at);
        bottom = OSVM_PICK(low < bottom, low, bottom);
        place += 4;
    }
    *best = -OSVM_FAR;
    *least = OSVM_FAR;
    for (k = 0; k < 4; k++) {
        if (top[k] > *best || (top[k] == *best && at[k] >= 0 && at[k] < found)) {
            *best = top[k];
            found = (ptrdiff_t)at[k];
        }
        if (bottom[k] < *least) *least = bottom[k];
    }
    return found;
#else
    ptrdiff_t k, found = -1;
    *best = -OSVM_FAR;
    *least = OSVM_FAR;
    for (k = 0; k < stride; k++) {
        if (up[k] && g[k] > *best) {
            *best = g[k];
            found = k;
        }
        if (down[k] && g[k] < *least) *least = g[k];
    }
    return found;
#endif
}

/* What counts as no curvature: 1e-12, less where all kernel values are small. */
OSVM_FORCE_INLINE double osvm_least_curve(ptrdiff_t count, const double *diagonal) {
    double largest = 1e-288;
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        const double size = diagonal[k] > 0.0 ? diagonal[k] : -diagonal[k];
        if (size > largest) largest = size;
    }
    return largest < 1.0 ? 1e-12 * largest : 1e-12;
}

/* The partner with the largest gain (best - g)^2 / (k_ff + k_kk - 2 k_fk). */
OSVM_FORCE_INLINE ptrdiff_t osvm_find_partner(ptrdiff_t stride, const double *g,
                                              const int64_t *down, const double *line,
                                              const double *diagonal, double own, double best,
                                              double flat) {
#if OSVM_VECTORS
    osvm_f64x4 top = {0.0, 0.0, 0.0, 0.0};
    const osvm_f64x4 zero = top, tiny = {flat, flat, flat, flat};
    osvm_i64x4 at = {-1, -1, -1, -1}, place = {0, 1, 2, 3};
    ptrdiff_t k, found = -1;
    double largest = 0.0;
    for (k = 0; k < stride; k += 4) {
        const osvm_f64x4 gap = best - *(const osvm_f64x4 *)(g + k);
        osvm_f64x4 curve =
            (own + *(const osvm_f64x4 *)(diagonal + k)) - 2.0 * *(const osvm_f64x4 *)(line + k);
        osvm_f64x4 gain;
        osvm_i64x4 better;
        curve = OSVM_PICK(curve < tiny, tiny, curve);
        gain = gap * gap / curve;
        better = (gap > zero) & *(const osvm_i64x4 *)(down + k) & (gain > top);
        top = OSVM_PICK(better, gain, top);
        at = OSVM_PICK_I(better, place, at);
        place += 4;
    }
    for (k = 0; k < 4; k++) {
        if (top[k] > largest || (top[k] == largest && at[k] >= 0 && at[k] < found)) {
            largest = top[k];
            found = (ptrdiff_t)at[k];
        }
    }
    return found;
#else
    ptrdiff_t k, found = -1;
    double largest = 0.0;
    for (k = 0; k < stride; k++) {
        const double gap = best - g[k];
        double curve = (own + diagonal[k]) - 2.0 * line[k];
        if (curve < flat) curve = flat;
        if (down[k] && gap > 0.0 && gap * gap / curve > largest) {
            largest = gap * gap / curve;
            found = k;
        }
    }
    return found;
#endif
}

/* Pair steps until the gap is at most tol: how many were made. */
OSVM_FORCE_INLINE ptrdiff_t osvm_loop_pair_steps(
    ptrdiff_t count, ptrdiff_t stride, const double *gram, const double *diagonal, double *g,
    double *s, const double *low, const double *high, int64_t *up, int64_t *down, double tol,
    ptrdiff_t limit) {
    const double flat = osvm_least_curve(count, diagonal);
    ptrdiff_t done, k;
    for (k = 0; k < stride; k++) {
        up[k] = down[k] = 0;
        if (k < count) osvm_set_masks(up + k, down + k, s[k], low[k], high[k]);
    }
    for (done = 0; done < limit; done++) {
        double best, least, curve, step, room_up, room_down;
        const double *line, *other;
        ptrdiff_t first, second;
        first = osvm_find_top(stride, g, up, down, &best, &least);
        if (first < 0 || best - least <= tol) break;
        line = gram + first * stride;
        second = osvm_find_partner(stride, g, down, line, diagonal, line[first], best, flat);
        if (second < 0) break;
        other = gram + second * stride;
        curve = (line[first] + other[second]) - 2.0 * line[second];
        if (curve < flat) curve = flat;
        step = (best - g[second]) / curve;
        room_up = high[first] - s[first];
        room_down = s[second] - low[second];
        if (step >= room_up && room_up <= room_down) { /* land on a bound exactly */
            step = room_up;
            s[first] = high[first];
            s[second] -= step;
        } else if (step >= room_down) {
            step = room_down;
            s[second] = low[second];
            s[first] += step;
        } else {
            s[first] += step;
            s[second] -= step;
        }
        if (!(step > 0.0)) break;
        osvm_set_masks(up + first, down + first, s[first], low[first], high[first]);
        osvm_set_masks(up + second, down + second, s[second], low[second], high[second]);
        for (k = 0; k < stride; k++) g[k] -= step * (line[k] - other[k]);
    }
    return done;
}

/* Single steps until every violation |g| is at most tol: how many were made. */
OSVM_FORCE_INLINE ptrdiff_t osvm_loop_single_steps(
    ptrdiff_t count, ptrdiff_t stride, const double *gram, const double *diagonal, double *g,
    double *s, const double *low, const double *high, int64_t *up, int64_t *down, double tol,
    ptrdiff_t limit) {
    ptrdiff_t done, k;
    (void)diagonal;
    for (k = 0; k < stride; k++) {
        up[k] = down[k] = 0;
        if (k < count) osvm_set_masks(up + k, down + k, s[k], low[k], high[k]);
    }
    for (done = 0; done < limit; done++) {
        double best = tol, target, step;
        const double *line;
        ptrdiff_t found = -1;
#if OSVM_VECTORS
        osvm_f64x4 top = {best, best, best, best};
        const osvm_f64x4 zero = {0.0, 0.0, 0.0, 0.0};
        osvm_i64x4 at = {-1, -1, -1, -1}, place = {0, 1, 2, 3};
        for (k = 0; k < stride; k += 4) {
            const osvm_f64x4 value = *(const osvm_f64x4 *)(g + k);
            const osvm_i64x4 rises = value > zero;
            const osvm_f64x4 size = OSVM_PICK(rises, value, -value);
            const osvm_i64x4 free = OSVM_PICK_I(rises, *(const osvm_i64x4 *)(up + k),
                                              *(const osvm_i64x4 *)(down + k));
            const osvm_i64x4 better = free & (size > top);
            top = OSVM_PICK(better, size, top);
            at = OSVM_PICK_I(better, place, at);
            place += 4;
        }
        for (k = 0; k < 4; k++)
            if (at[k] >= 0 && (top[k] > best || (top[k] == best && at[k] < found))) {
                best = top[k];
                found = (ptrdiff_t)at[k];
            }
#else
        for (k = 0; k < count; k++) {
            const double size = g[k] > 0.0 ? g[k] : -g[k];
            if ((g[k] > 0.0 ? up[k] : down[k]) && size > best) {
                best = size;
                found = k;
            }
        }
#endif
        if (found < 0) break;
        line = gram + found * stride;
        target = s[found] + (line[found] > 0.0 ? g[found] / line[found] : 0.0);
        target = target < low[found] ? low[found] : target > high[found] ? high[found] : target;
        step = target - s[found];
        if (step == 0.0) break;
        s[found] = target;
        osvm_set_masks(up + found, down + found, target, low[found], high[found]);
        for (k = 0; k < stride; k++) g[k] -= step * line[k];
    }
    return done;
}

#define OSVM_STEP_PARAMETERS                                                                  \
    (ptrdiff_t count, ptrdiff_t stride, const double *gram, const double *diagonal,           \
     double *g, double *s, const double *low, const double *high, int64_t *up, int64_t *down, \
     double tol, ptrdiff_t limit)
#define OSVM_STEP_ARGUMENTS \
    (count, stride, gram, diagonal, g, s, low, high, up, down, tol, limit)

OSVM_DISPATCH_VALUE(ptrdiff_t, pair_steps, OSVM_STEP_PARAMETERS, OSVM_STEP_ARGUMENTS)
OSVM_DISPATCH_VALUE(ptrdiff_t, single_steps, OSVM_STEP_PARAMETERS, OSVM_STEP_ARGUMENTS)

#endif
