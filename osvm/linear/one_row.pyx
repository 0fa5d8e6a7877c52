"""One example at a time at full speed, without a matrix around it.

`OneByOne` sits between an estimator and its learner.  It takes an example as two
arrays (column numbers and values) or as a dict of column to value, checks bounds
and finiteness, and runs the very loop that `partial_fit` runs on a matrix of one
row, so that both give the same model bit for bit.

What is not usual (a new label, arrays of other types, class weights, ...) is not
handled here: `learn` then returns False, having changed nothing, and the
estimator takes its general way, which converts or explains.
"""
import numpy as np

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport PyObject

from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from osvm.linear.step_bound cimport bounded_at, bounded_sq_norm
from osvm._input.rows cimport type_code
from osvm.linear.learner cimport Record, SGDLearner
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, ROW_F64_I64, Row, Rows

cdef extern from "../_c/simd.h" nogil:
    int32_t osvm_largest_f32(const void *x, Py_ssize_t n)
    int64_t osvm_largest_f64(const void *x, Py_ssize_t n)
    bint osvm_in_range_i32(const void *j, Py_ssize_t n, uint32_t largest)
    bint osvm_in_range_i64(const void *j, Py_ssize_t n, uint64_t largest)

# Parameters that must be False or None for the short way.
cdef tuple UNUSUAL = ("class_weight", "normalize", "probability", "record", "verbose")


cdef class OneByOne:
    """The short way of one fitted estimator.

    Parameters
    ----------
    learner : SGDLearner
    index : LabelIndex or None
        Of a classifier; None where the target is a number.
    novelty : bool
        No target: it is always 1.
    averaged : bool
        Predict with the average.
    curvature : float
        Of the loss, where a step may not go beyond its example; else 0.
    """
    cdef readonly SGDLearner learner
    cdef readonly object index
    cdef dict codes                 # label to code; None for numbers
    cdef list labels
    cdef bint novelty
    cdef bint averaged
    cdef double curvature
    cdef Rows rows                  # the example in hand
    cdef double largest
    cdef int64_t indptr[2]
    cdef int32_t narrow_indptr[2]
    cdef Py_buffer held[2]
    cdef int n_held
    cdef double[::1] scratch        # zeros, with a curvature
    cdef int64_t *columns           # of a dict
    cdef double *numbers
    cdef Py_ssize_t room

    def __init__(self, SGDLearner learner, index, bint novelty, bint averaged,
                 double curvature=0.0):
        self.learner = learner
        self.index = index
        self.codes = None if index is None else index._lookup
        self.labels = None if index is None else index.classes.tolist()
        self.novelty = novelty
        self.averaged = averaged
        self.curvature = curvature
        self.scratch = np.zeros(learner.weights.dim) if curvature > 0.0 else None

    def __dealloc__(self):
        self._close()
        PyMem_Free(self.columns)
        PyMem_Free(self.numbers)

    # ------------------------------------------------------------ the example

    cdef void _close(self):
        while self.n_held > 0:
            self.n_held -= 1
            PyBuffer_Release(&self.held[self.n_held])

    cdef bint _open(self, x, values) except -1:
        """Point `rows` at the example; False when it is not a usual one."""
        cdef Rows *rows = &self.rows
        rows.struct_size = sizeof(Rows)
        rows.n_rows = 1
        rows.n_features = self.learner.weights.dim if self.learner.vec == NULL \
            else self.learner.vec.dim
        rows.step = 1
        rows.row_step = 0
        rows.row_scale = NULL
        if type(x) is dict:
            return self._open_dict(<dict> x)
        try:
            PyObject_GetBuffer(values, &self.held[0], PyBUF_FORMAT | PyBUF_ND)
            self.n_held = 1
            PyObject_GetBuffer(x, &self.held[1], PyBUF_FORMAT | PyBUF_ND)
            self.n_held = 2
        except (TypeError, ValueError, BufferError):
            self._close()
            return False
        if self._open_arrays():
            return True
        self._close()
        return False

    cdef bint _open_arrays(self) noexcept:
        cdef Rows *rows = &self.rows
        cdef Py_buffer *v = &self.held[0]
        cdef Py_buffer *j = &self.held[1]
        cdef char value_code = type_code(v), index_code = type_code(j)
        cdef Py_ssize_t n
        if v.ndim != 1 or j.ndim != 1 or v.shape[0] != j.shape[0]:
            return False
        if <size_t> v.buf % <size_t> v.itemsize or <size_t> j.buf % <size_t> j.itemsize:
            return False
        n = v.shape[0]
        rows.values = v.buf
        rows.indices = j.buf
        if index_code == c'i':
            rows.kind = ROW_F32_I32 if value_code == c'f' else ROW_F64_I32
            self.narrow_indptr[0] = 0
            self.narrow_indptr[1] = <int32_t> n
            rows.indptr = self.narrow_indptr
            if n > 0x7fffffff or not osvm_in_range_i32(
                    j.buf, n, <uint32_t> min(rows.n_features - 1, 0x7fffffff)):
                return False
        elif index_code == c'l':
            rows.kind = ROW_F32_I64 if value_code == c'f' else ROW_F64_I64
            self.indptr[0] = 0
            self.indptr[1] = n
            rows.indptr = self.indptr
            if not osvm_in_range_i64(j.buf, n, <uint64_t> (rows.n_features - 1)):
                return False
        else:
            return False
        if value_code == c'f':
            self.largest = size_f32(osvm_largest_f32(v.buf, n))
        elif value_code == c'd':
            self.largest = size_f64(osvm_largest_f64(v.buf, n))
        else:
            return False
        return self.largest < INFINITY

    cdef bint _open_dict(self, dict x) except -1:
        """Copy columns and values; a column or value of another kind is an error."""
        cdef Py_ssize_t n = PyDict_Size(x), at = 0, k = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef Rows *rows = &self.rows
        if n > self.room:
            self._grow(n)
        while PyDict_Next(x, &at, &key, &value):
            if type(<object> key) is not int and isinstance(<object> key, (str, bytes, float)):
                raise TypeError(
                    f"a feature is named {<object> key!r}: features are column numbers; turn "
                    "names into numbers first, e.g. with sklearn.feature_extraction.FeatureHasher")
            self.columns[k] = <object> key
            self.numbers[k] = <object> value
            if not 0 <= self.columns[k] < rows.n_features or not isfinite(self.numbers[k]):
                return False
            k += 1
        self.indptr[0] = 0
        self.indptr[1] = n
        rows.kind = ROW_F64_I64
        rows.values = self.numbers
        rows.indices = self.columns
        rows.indptr = self.indptr
        self.largest = size_f64(osvm_largest_f64(self.numbers, n))
        return True

    cdef int _grow(self, Py_ssize_t n) except -1:
        cdef Py_ssize_t room = max(2 * n, 64)
        cdef void *place = PyMem_Realloc(self.columns, room * sizeof(int64_t))
        if place == NULL:
            raise MemoryError
        self.columns = <int64_t *> place
        place = PyMem_Realloc(self.numbers, room * sizeof(double))
        if place == NULL:
            raise MemoryError
        self.numbers = <double *> place
        self.room = room
        return 0

    # --------------------------------------------------------------- learning

    cdef bint learn(self, x, values, y) except -1:
        """Learn one example; False, with nothing changed, when it is not a usual one."""
        cdef SGDLearner learner = self.learner
        cdef double target = 1.0
        cdef int32_t label = 0
        cdef Py_ssize_t at = 0
        cdef int status
        cdef Record record
        cdef Row row
        cdef double c = 1.0
        cdef double *weight = NULL
        if self.codes is not None:
            try:
                code = self.codes.get(y)
            except TypeError:
                return False
            if code is None:
                return False
            label = code
            target = 1.0 if label == 1 else -1.0
        elif not self.novelty:
            if not isinstance(y, float) and not isinstance(y, int):
                return False
            target = y
            if not isfinite(target):
                return False
        if not self._open(x, values):
            return False
        if self.curvature > 0.0:
            rows_get(&self.rows, 0, &row)
            c = bounded_at(learner, 1.0, self.curvature, learner.t + 1.0,
                           bounded_sq_norm(&row, &self.scratch[0]))
            weight = &c if c != 1.0 else NULL
        record.eta = record.loss = record.error = record.score = NULL
        learner.reach = -1.0
        if learner.n_out == 1:
            status = learner._learn_scalar(&self.rows, &target, NULL, &at, 1, weight,
                                           self.largest, record)
        else:
            status = learner._learn_multi(&self.rows, &label, NULL, &at, 1, weight,
                                          self.largest, record)
        self._close()
        if status:
            learner._complain(status, 0)
        return True

    # ------------------------------------------------------------- predicting

    cdef bint score(self, x, values, double *out) except -1:
        """Scores of one example; False when it is not a usual one."""
        cdef Row row
        cdef SGDLearner learner = self.learner
        cdef double count
        if not self._open(x, values):
            return False
        count = learner.mat.avg_count if learner.vec == NULL else learner.vec.avg_count
        rows_get(&self.rows, 0, &row)
        learner._score(&row, self.averaged and count > 0.0, out)
        self._close()
        return True


cdef inline double size_f32(int32_t bits) noexcept:
    cdef float number
    if bits >= 0x7f800000:
        return INFINITY
    memcpy(&number, &bits, 4)
    return number


cdef inline double size_f64(int64_t bits) noexcept:
    cdef double number
    if bits >= 0x7ff0000000000000:
        return INFINITY
    memcpy(&number, &bits, 8)
    return number


cdef OneByOne ready(dict known):
    """The estimator's short way, if it has one that is up to date."""
    one = known.get("_one")
    if one is None or (<OneByOne> one).learner is not known.get("_learner"):
        return None
    if (<OneByOne> one).index is not known.get("_index"):
        return None
    return one


def learn(model, x, values, y):
    """`model` learns one example the short way; False when it cannot."""
    cdef dict known = model.__dict__
    cdef OneByOne one = ready(known)
    if one is None:
        return False
    for name in UNUSUAL:
        value = known.get(name)
        if value is not None and value is not False:
            return False
    if not one.learn(x, values, y):
        return False
    known["t_"] = <int64_t> one.learner.seen
    if "_frozen" in known:
        del known["_frozen"]
    return True


def score(model, x, values):
    """Score(s) of one example as a float or a list; None when it is not a usual one."""
    cdef dict known = model.__dict__
    cdef OneByOne one = ready(known)
    cdef Py_ssize_t k
    cdef double *f
    if one is None or known.get("normalize"):
        return None
    f = one.learner.f
    if not one.score(x, values, f):
        return None
    if one.learner.n_out == 1:
        return f[0]
    return [f[k] for k in range(one.learner.n_out)]


def classify(model, x, values):
    """(label,) of one example; None when it is not a usual one."""
    cdef dict known = model.__dict__
    cdef OneByOne one = ready(known)
    cdef Py_ssize_t k, best = 0, n
    cdef double *f
    if one is None or known.get("normalize"):
        return None
    f = one.learner.f
    if not one.score(x, values, f):
        return None
    n = len(one.labels)
    if one.learner.n_out == 1:
        best = 1 if f[0] > 0.0 and n > 1 else 0
    else:
        for k in range(1, n):
            if f[k] > f[best]:
                best = k
    return (one.labels[best],)
