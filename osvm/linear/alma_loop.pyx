"""ALMA_p on rows: p-norm perceptron steps with a growing margin, O(non-zeros) per row.

Follows Gentile, "A new approximate maximal margin classification algorithm" (JMLR 2001).
With 1/p + 1/q = 1, theta = f(w) is the gradient of ||w||_q^2/2, so that
w_j = sign(theta_j) |theta_j|^(p-1) / ||theta||_p^(p-2) and ||w||_q = ||theta||_p.  On a row
x of p-norm 1 with y w.x <= (1 - slack) B sqrt(p-1)/sqrt(k), the k-th correction adds
C/(sqrt(p-1) sqrt(k)) y x to theta and projects ||theta||_p back to 1.

Invariants
- theta = scale * raw; `power` = sum_j |raw_j|^p, kept up to date entry by entry;
- repeated columns of a row add up before anything else; an empty row changes nothing.
"""
from libc.math cimport fabs, pow, sqrt

from osvm._input.rows cimport RowSource
from osvm.core.rows cimport row_index, row_value, rows_get
from osvm.core.typedefs cimport Row

import numpy as np


cdef inline double power_of(double x, double p) noexcept nogil:
    """|x|^p."""
    return x * x if p == 2.0 else pow(fabs(x), p)


cdef inline double turned(double x, double p) noexcept nogil:
    """sign(x) |x|^(p-1)."""
    if p == 2.0:
        return x
    return pow(x, p - 1.0) if x > 0.0 else -pow(-x, p - 1.0) if x < 0.0 else 0.0


cdef class AlmaState:
    """theta of one or more outputs."""

    cdef readonly object raw            # (n_outputs, d)
    cdef readonly object scale, power, count
    cdef readonly double p, slack, margin, step

    def __init__(self, Py_ssize_t n_outputs, Py_ssize_t d, double p, double slack,
                 double margin, double step):
        self.raw = np.zeros((n_outputs, d))
        self.scale, self.power = np.ones(n_outputs), np.zeros(n_outputs)
        self.count = np.ones(n_outputs)
        self.p, self.slack, self.margin, self.step = p, slack, margin, step

    def copy(self):
        """A state of its own."""
        made = AlmaState(1, 1, self.p, self.slack, self.margin, self.step)
        made.set_arrays(self.raw.copy(), self.scale.copy(), self.power.copy(), self.count.copy())
        return made

    def set_arrays(self, raw, scale, power, count):
        """Put arrays in place."""
        if raw.ndim != 2 or not len(raw) == len(scale) == len(power) == len(count):
            raise ValueError("arrays of an ALMA state disagree")
        self.raw, self.scale = np.ascontiguousarray(raw, float), np.array(scale, float)
        self.power, self.count = np.array(power, float), np.array(count, float)

    def weights(self):
        """w, (n_outputs, d)."""
        theta = self.scale[:, None] * self.raw
        norm = np.linalg.norm(theta, self.p, axis=1)
        norm[norm == 0] = 1.0
        w = np.sign(theta) * np.abs(theta) ** (self.p - 1)
        return w / norm[:, None] ** (self.p - 2)

    def learn(self, RowSource source, const double[:, ::1] Y, const Py_ssize_t[::1] order):
        """Take the rows in this order; how many corrections were made."""
        cdef double[:, ::1] raw = self.raw
        cdef double[::1] scale = self.scale, power = self.power, count = self.count
        cdef double p = self.p, slack = self.slack, margin = self.margin, step = self.step
        cdef double root = sqrt(p - 1.0)
        cdef Py_ssize_t longest = source.n_features, t, k, j, q, found, made = 0
        cdef double[::1] line = np.zeros(longest)
        cdef double[::1] values = np.zeros(longest)
        cdef Py_ssize_t[::1] places = np.zeros(longest, np.intp)
        cdef double norm, score, add, new, size, y
        cdef Row row
        if raw.shape[1] != longest or Y.shape[0] != raw.shape[0] or Y.shape[1] != source.n_rows:
            raise ValueError("rows, labels and state disagree")
        with nogil:
            for t in range(order.shape[0]):
                rows_get(&source.rows, order[t], &row)
                for k in range(row.count):
                    line[row_index(&row, k)] += row_value(&row, k)
                found = 0
                norm = 0.0
                for k in range(row.count):
                    j = row_index(&row, k)
                    if line[j] != 0.0:
                        places[found] = j
                        values[found] = line[j]
                        norm += power_of(line[j], p)
                        line[j] = 0.0
                        found += 1
                if found == 0:
                    continue
                norm = sqrt(norm) if p == 2.0 else pow(norm, 1.0 / p)
                for q in range(raw.shape[0]):
                    y = Y[q, order[t]]
                    score = 0.0
                    for k in range(found):
                        score += turned(raw[q, places[k]], p) * values[k]
                    if power[q] > 0.0:
                        if p != 2.0:
                            score /= pow(power[q], (p - 2.0) / p)
                        score *= scale[q] / norm
                    if y * score > (1.0 - slack) * margin * root / sqrt(count[q]):
                        continue
                    add = step / (root * sqrt(count[q])) * y / (norm * scale[q])
                    for k in range(found):
                        new = raw[q, places[k]] + add * values[k]
                        power[q] += power_of(new, p) - power_of(raw[q, places[k]], p)
                        raw[q, places[k]] = new
                    power[q] = 0.0 if power[q] < 0.0 else power[q]
                    count[q] += 1.0
                    made += 1
                    size = scale[q] * (sqrt(power[q]) if p == 2.0 else pow(power[q], 1.0 / p))
                    if size > 1.0:
                        scale[q] /= size
                    if scale[q] < 1e-6:  # fold, and sum the powers afresh
                        power[q] = 0.0
                        for j in range(longest):
                            raw[q, j] *= scale[q]
                            power[q] += power_of(raw[q, j], p)
                        scale[q] = 1.0
        return made
