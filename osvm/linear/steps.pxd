# What every loop of the linear model asks about a step, and what follows one.
#
# Bounds that tell whether K outputs can take a step without overflow (for one output
# see osvm/linear/one_output_sparse.pxd), small questions about the K scores or derivatives of an
# example, and the end of a step: projection, then the average.  And how such loops go from
# one row to the next.
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t

from osvm.linear.model cimport LinearModel
from osvm.core.loss cimport (
    LOSS_CUSTOM, LOSS_HUBER, LOSS_MODIFIED_HUBER, LOSS_SQUARED, LOSS_SQUARED_HINGE,
)
from osvm.core.rows cimport OSVM_PREFETCH, row_index, rows_get, rows_prefetch, rows_prefetch_start
from osvm.core.smat cimport smat_count_average, smat_project_one, smat_start_average
from osvm.core.svec cimport svec_count_average, svec_project, svec_start_average
from osvm.core.typedefs cimport Loss, Row, Rows, SMat

# Rows fetched ahead of their use; four hide the memory's latency.
cdef enum:
    AHEAD = 4
    RING = 8                # rows looked up and not used yet; a power of two above AHEAD


cdef inline Py_ssize_t take_row(const Rows *X, const int64_t *order, Py_ssize_t n,
                                Py_ssize_t start, Py_ssize_t stop, Row *pair, Row **row,
                                Row **later) noexcept nogil:
    """The number of the n-th example; its row and the next one (itself at the end) as views.

    Rows further on are fetched meanwhile.  `pair` is room for two views, kept from call
    to call.
    """
    cdef Py_ssize_t i = n if order == NULL else order[n]
    if order != NULL and n + 2 * AHEAD < stop:
        rows_prefetch_start(X, order[n + 2 * AHEAD])
    if n + AHEAD < stop:
        rows_prefetch(X, n + AHEAD if order == NULL else order[n + AHEAD])
    row[0] = &pair[n & 1]
    later[0] = row[0]
    if n == start:
        rows_get(X, i, row[0])
    if n + 1 < stop:
        later[0] = &pair[(n + 1) & 1]
        rows_get(X, n + 1 if order == NULL else order[n + 1], later[0])
    return i


cdef inline void fetch_rest(const SMat *w, const Row *row, const Row *later,
                            Py_ssize_t stride) noexcept nogil:
    """The weights of `later` beyond those that `smat_dot_ahead` has fetched beside `row`."""
    cdef Py_ssize_t k
    cdef const char *place
    for k in range(row.count, later.count):
        place = <const char *> w.v + row_index(later, k) * stride
        OSVM_PREFETCH(place)
        OSVM_PREFETCH(place + stride - 1)


cdef inline bint fits_all(double eta, double pull, const SMat *w, double limit) noexcept nogil:
    """Whether K outputs can take the step: their largest |xi| times the weight is `pull`."""
    cdef Py_ssize_t k
    cdef double size = eta * pull, smallest = fabs(w.scale[0]), average = 1.0
    # Scales stay within [low, high], which settles it nearly always.
    if pull < 1e145 and size * (1.0 + w.avg_count * w.high) < limit * w.low:
        return True
    for k in range(w.n_out):
        smallest = fabs(w.scale[k]) if fabs(w.scale[k]) < smallest else smallest
    if w.averaging:
        for k in range(w.n_out):
            average = w.avg_scale[k] if w.avg_scale[k] > average else average
    return pull < 1e145 and size * average < limit * smallest


cdef inline double largest_of(const double *xi, Py_ssize_t K) noexcept nogil:
    cdef Py_ssize_t k
    cdef double largest = 0.0
    for k in range(K):
        largest = fabs(xi[k]) if fabs(xi[k]) > largest else largest
    return largest


cdef inline bint any_of(const double *xi, Py_ssize_t K) noexcept nogil:
    cdef Py_ssize_t k, n = 0
    for k in range(K):
        n += xi[k] != 0.0
    return n > 0


cdef inline Py_ssize_t outranking(const double *f, Py_ssize_t K,
                                  Py_ssize_t label) noexcept nogil:
    """How many outputs come before the label's: larger, or equal and earlier."""
    cdef Py_ssize_t k, n = 0
    cdef double own = f[label]
    for k in range(label):
        n += f[k] >= own
    for k in range(label + 1, K):
        n += f[k] > own
    return n


cdef inline double loss_slope(const Loss *loss) noexcept nogil:
    """Bound of |xi|; infinity where there is none."""
    if loss.kind in (LOSS_SQUARED_HINGE, LOSS_SQUARED, LOSS_CUSTOM):
        return INFINITY
    if loss.kind == LOSS_MODIFIED_HUBER:
        return 4.0
    return loss.p0 if loss.kind == LOSS_HUBER else 1.0


cdef inline void after_step(LinearModel *model) noexcept nogil:
    """Project, then count the iterate."""
    cdef Py_ssize_t k
    if model.options.radius > 0.0:
        if model.vec != NULL:
            svec_project(model.vec, model.options.radius)
        else:
            for k in range(model.n_out):
                smat_project_one(model.mat, k, model.options.radius)
    if model.options.average_from >= 0.0 and model.seen >= model.options.average_from:
        if model.vec != NULL:
            if not model.vec.averaging:
                svec_start_average(model.vec, model.vec.u)
            svec_count_average(model.vec)
        else:
            if not model.mat.averaging:
                smat_start_average(model.mat, model.mat.u)
            smat_count_average(model.mat)
        for k in range(model.n_out):
            model.b_sum[k] += model.b[k]
