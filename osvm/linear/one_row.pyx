"""One example at a time at full speed, without a matrix around it.

`OneByOne` sits between an estimator and its learner.  It takes an example as two
arrays (column numbers and values), as a dict of column to value or as a dense row, checks
bounds and finiteness, and runs the very loop that `partial_fit` runs on a matrix of one
row, so that both give the same model bit for bit.

What is not usual (a new label, arrays of other types, class weights, ...) is not
handled here: `learn` then returns False, having changed nothing, and the
estimator takes its general way, which converts or explains.
"""
import numpy as np

from osvm._input.labels import LabelRuns

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject

from libc.math cimport INFINITY, fabs, isfinite
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from osvm._estimator.lock cimport Locked, ModelLock
from osvm._input.rows cimport type_code
from osvm.linear.learner cimport Learner, SGDLearner
from osvm.linear.model cimport Examples, Record, raise_status
from osvm.linear.step_guard cimport bounded_at, bounded_sq_norm
from osvm.linear.weights cimport SCRATCH
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Row, Rows,
)

cdef extern from "Python.h":
    object PyObject_GenericGetDict(object model, void *context)
    bint PyLong_CheckExact(PyObject *object)        # of borrowed references
    bint PyFloat_CheckExact(PyObject *object)
    double PyFloat_AS_DOUBLE(PyObject *object)

cdef extern from "../_c/simd.h" nogil:
    int32_t osvm_largest_f32(const void *x, Py_ssize_t n)
    int64_t osvm_largest_f64(const void *x, Py_ssize_t n)
    bint osvm_in_range_i32(const void *j, Py_ssize_t n, uint32_t largest)
    bint osvm_in_range_i64(const void *j, Py_ssize_t n, uint64_t largest)

cdef extern from "../_c/repeats.h" nogil:
    Py_ssize_t osvm_descents_i32(const void *j, Py_ssize_t n)
    Py_ssize_t osvm_descents_i64(const void *j, Py_ssize_t n)
    int osvm_repeats_i32(const void *j, Py_ssize_t n)
    int osvm_repeats_i64(const void *j, Py_ssize_t n)

cdef enum:
    FEW = 128           # entries of a dict that fit on the stack
    # Examples from one look at two neighboring labels to the next; a prime, so that labels in a
    # cycle are not always met at the same place.
    PAIR_EVERY = 131

# Parameters that must be False or None for learning on the fast path.
UNUSUAL = ("class_weight", "normalize", "probability", "record", "verbose")
# In place of column numbers: the values are a dense row.
cdef object DENSE = object()


# An example in hand: what one call needs, on its stack.
cdef struct Example:
    Rows rows
    double largest
    int64_t indptr[2]
    int32_t narrow_indptr[2]
    Py_buffer held[2]
    int n_held
    int64_t *columns            # of a dict
    double *numbers
    int64_t few_columns[FEW]
    double few_numbers[FEW]


cdef inline void close_example(Example *example) noexcept:
    while example.n_held > 0:
        example.n_held -= 1
        PyBuffer_Release(&example.held[example.n_held])
    if example.columns != example.few_columns:
        PyMem_Free(example.columns)
        PyMem_Free(example.numbers)


cdef inline bint open_example(Example *example, x, values, Py_ssize_t n_features,
                              bint to_learn) except -1:
    """Point `rows` at the example; False when it is not a usual one.

    One that names a column twice is not usual to learn from: its values have to be added up.
    `close_example` must follow in any case.
    """
    cdef Rows *rows = &example.rows
    example.n_held = 0
    example.columns = example.few_columns
    example.numbers = example.few_numbers
    rows.struct_size = sizeof(Rows)
    rows.n_rows = 1
    rows.n_features = n_features
    rows.step = 1
    rows.row_step = 0
    rows.row_scale = NULL
    if type(x) is dict:
        return open_dict(example, <dict> x)
    if x is DENSE:
        return open_dense(example, values)
    try:
        PyObject_GetBuffer(values, &example.held[0], PyBUF_FORMAT | PyBUF_ND)
        example.n_held = 1
        PyObject_GetBuffer(x, &example.held[1], PyBUF_FORMAT | PyBUF_ND)
        example.n_held = 2
    except (TypeError, ValueError, BufferError):
        return False
    return open_arrays(example, to_learn)


cdef bint open_dense(Example *example, array) except -1:
    """A row of as many floats as there are features, in an array of two dimensions."""
    cdef Rows *rows = &example.rows
    cdef Py_buffer *v = &example.held[0]
    cdef char code
    try:
        PyObject_GetBuffer(array, v, PyBUF_FORMAT | PyBUF_ND)
    except (TypeError, ValueError, BufferError):
        return False
    example.n_held = 1
    code = type_code(v)
    if v.ndim != 2 or v.shape[0] != 1 or v.shape[1] != rows.n_features:
        return False
    if <size_t> v.buf % <size_t> v.itemsize:
        return False
    rows.values = v.buf
    rows.indices = NULL
    rows.indptr = NULL
    rows.row_step = rows.n_features
    if code == c'f':
        rows.kind = ROW_F32_DENSE
        example.largest = size_f32(osvm_largest_f32(v.buf, rows.n_features))
    elif code == c'd':
        rows.kind = ROW_F64_DENSE
        example.largest = size_f64(osvm_largest_f64(v.buf, rows.n_features))
    else:
        return False
    return example.largest < INFINITY


cdef inline bint open_arrays(Example *example, bint to_learn) noexcept:
    cdef Rows *rows = &example.rows
    cdef Py_buffer *v = &example.held[0]
    cdef Py_buffer *j = &example.held[1]
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
        example.narrow_indptr[0] = 0
        example.narrow_indptr[1] = <int32_t> n
        rows.indptr = example.narrow_indptr
        if n > 0x7fffffff or not osvm_in_range_i32(
                j.buf, n, <uint32_t> min(rows.n_features - 1, 0x7fffffff)):
            return False
        if to_learn and osvm_descents_i32(j.buf, n) and osvm_repeats_i32(j.buf, n):
            return False
    elif index_code == c'l':
        rows.kind = ROW_F32_I64 if value_code == c'f' else ROW_F64_I64
        example.indptr[0] = 0
        example.indptr[1] = n
        rows.indptr = example.indptr
        if not osvm_in_range_i64(j.buf, n, <uint64_t> (rows.n_features - 1)):
            return False
        if to_learn and osvm_descents_i64(j.buf, n) and osvm_repeats_i64(j.buf, n):
            return False
    else:
        return False
    if value_code == c'f':
        example.largest = size_f32(osvm_largest_f32(v.buf, n))
    elif value_code == c'd':
        example.largest = size_f64(osvm_largest_f64(v.buf, n))
    else:
        return False
    return example.largest < INFINITY


cdef bint open_dict(Example *example, dict x) except -1:
    """Copy columns and values; a column or value of another kind is an error."""
    cdef Py_ssize_t n = PyDict_Size(x), at = 0, k = 0
    cdef PyObject *key
    cdef PyObject *value
    cdef Rows *rows = &example.rows
    cdef uint64_t n_features = rows.n_features
    cdef int64_t column
    cdef int64_t *columns
    cdef double *numbers
    if n > FEW:
        example.columns = <int64_t *> PyMem_Malloc(n * sizeof(int64_t))
        example.numbers = <double *> PyMem_Malloc(n * sizeof(double))
        if example.columns == NULL or example.numbers == NULL:
            raise MemoryError
    columns, numbers = example.columns, example.numbers
    try:
        while PyDict_Next(x, &at, &key, &value):
            if k == n:
                raise RuntimeError("the dict of features grew while it was being read")
            if not PyLong_CheckExact(key):
                if k == 0 and isinstance(<object> key, str):
                    return False    # names are for the general path
                if isinstance(<object> key, (str, bytes, float)):
                    raise TypeError(
                        f"a feature is named {<object> key!r}: features of one example are column "
                        "numbers, or names (str)")
            column = <object> key
            if PyFloat_CheckExact(value):
                numbers[k] = PyFloat_AS_DOUBLE(value)
            else:
                numbers[k] = <object> value
            if <uint64_t> column >= n_features:     # or negative
                return False
            columns[k] = column
            k += 1
    except OverflowError:           # the general path names it
        return False
    example.indptr[0] = 0
    example.indptr[1] = k
    rows.kind = ROW_F64_I64
    rows.values = example.numbers
    rows.indices = example.columns
    rows.indptr = example.indptr
    example.largest = size_f64(osvm_largest_f64(numbers, k))
    return example.largest < INFINITY


@cython.final
cdef class OneByOne:
    """The fast path of one fitted estimator.  Readers change nothing in it.

    Parameters
    ----------
    learner : Learner
    index : LabelIndex or None
        Of a classifier; None where the target is a number.
    novelty : bool
        No target: it is always 1.
    averaged : bool
        Predict with the average.
    curvature : float
        Of the loss, where a step may not go beyond its example; else 0.
    recent : array, optional
        A count, and a ring of scores that get those of the examples after their steps.
    usual : bool
        Whether the parameters (see `UNUSUAL`) let it learn.
    """
    cdef readonly Learner learner
    cdef readonly object index
    cdef dict codes                 # label to code; None for numbers
    cdef list labels
    cdef bint novelty
    cdef bint averaged
    cdef bint usual
    cdef bint alike                 # every label so far may have been the same
    cdef double curvature
    cdef double[::1] scratch        # zeros, with a curvature; for learning
    cdef double[::1] recent
    cdef int64_t n_learnt, next_pair    # the example that ends the next pair for `LabelRuns`
    cdef int32_t before, after          # the codes of that pair

    def __init__(self, Learner learner, index, bint novelty, bint averaged,
                 double curvature=0.0, recent=None, bint usual=True):
        self.learner = learner
        self.index = index
        self.codes = None if index is None else index._lookup
        self.labels = None if index is None else index.classes.tolist()
        self.novelty = novelty
        self.averaged = averaged
        self.usual = usual
        self.alike = index is not None
        self.curvature = curvature
        self.scratch = np.zeros(learner.n_features) if curvature > 0.0 else None
        self.recent = recent
        self.next_pair = PAIR_EVERY

    cdef inline Py_ssize_t n_features(self) noexcept:
        return self.learner.n_features

    # --------------------------------------------------------------- learning

    cdef bint learn(self, x, values, y) except -1:
        """Learn one example; False, with nothing changed, when it is not a usual one."""
        cdef double target = 1.0
        cdef int32_t label = 0
        cdef Example example
        cdef int status
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
            try:
                target = y
            except OverflowError:       # an int that no float holds: the general path names it
                return False
            if not fabs(target) <= 1e150:       # MOST_TARGET of _input/targets.py, or NaN
                return False
        try:
            if not open_example(&example, x, values, self.n_features(), True):
                return False
            status = self.step(&example, target, label)
            if status == 0 and self.recent is not None:
                self.keep_score(&example)
        finally:
            close_example(&example)
        if status:
            raise_status(self.learner.loss_spec, status, 0)
        self.before, self.after = self.after, label
        self.n_learnt += 1
        return True

    cdef inline void keep_score(self, Example *example) noexcept:
        cdef Row row
        cdef double work, score
        cdef Py_ssize_t n = self.recent.shape[0] - 1
        rows_get(&example.rows, 0, &row)
        self.learner._score_row(&row, self.averaged, &work, &score)
        if isfinite(score):
            self.recent[1 + <Py_ssize_t> self.recent[0] % n] = score
            self.recent[0] += 1.0

    cdef inline int step(self, Example *example, double target, int32_t label) noexcept:
        cdef SGDLearner plain
        cdef Py_ssize_t at = 0
        cdef Examples examples
        cdef Row row
        cdef double c = 1.0
        cdef double *weight = NULL
        if self.curvature > 0.0:
            rows_get(&example.rows, 0, &row)
            plain = <SGDLearner> self.learner       # the only one with a curvature
            c = bounded_at(&plain.model.step, &plain.model.options, 1.0, self.curvature,
                           plain.model.t + 1.0, bounded_sq_norm(&row, &self.scratch[0]))
            weight = &c if c != 1.0 else NULL
        examples.X, examples.y, examples.labels = &example.rows, &target, &label
        examples.order, examples.weight, examples.largest = NULL, weight, example.largest
        memset(&examples.record, 0, sizeof(Record))     # nothing is recorded
        self.learner.weight_bound = -1.0
        return self.learner._learn(&examples, &at, 1)

    # ------------------------------------------------------------- predicting

    cdef bint score(self, x, values, double *out, double *work) except -1:
        """Scores of one example; False when it is not a usual one.

        `work` has room for as many numbers as `out`: one per output.
        """
        cdef Example example
        cdef Row row
        cdef Py_ssize_t k
        try:
            if not open_example(&example, x, values, self.n_features(), False):
                return False
            rows_get(&example.rows, 0, &row)
            self.learner._score_row(&row, self.averaged, work, out)
        finally:
            close_example(&example)
        for k in range(self.learner.n_out):
            if not isfinite(out[k]):    # the general path names it
                return False
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


cdef inline OneByOne ready(dict known):
    """The estimator's fast path, if it has one that is up to date."""
    one = known.get("_one")
    if one is None or (<OneByOne> one).learner is not known.get("_learner"):
        return None
    if (<OneByOne> one).index is not known.get("_index"):
        return None
    return one


def learn(model, x, values, y):
    """`model`, a linear estimator, learns one example on the fast path; False when it cannot."""
    return x is not DENSE and learn_usual(model, x, values, y)


def learn_dense(model, X, y):
    """The same for an array of one row."""
    return learn_usual(model, DENSE, X, y)


cdef bint learn_usual(model, x, values, y) except -1:
    cdef dict known = PyObject_GenericGetDict(model, NULL)
    cdef OneByOne one
    cdef ModelLock lock = lock_of(model)
    lock.write(True)
    try:
        one = ready(known)
        if one is None:
            return False
        if not one.usual or not one.learn(x, values, y):
            return False
        known["t_"] = <int64_t> one.learner._seen()
        if "_frozen" in known:
            del known["_frozen"]
        if one.recent is not None:
            known.pop("_offset", None)
        if one.alike:
            if "_runs" not in known:
                known["_runs"] = LabelRuns()
            one.alike = known["_runs"].watch_one(one.after)
        if one.n_learnt == one.next_pair:
            one.next_pair += PAIR_EVERY if one.n_learnt < 16 * PAIR_EVERY else 8 * PAIR_EVERY
            if one.codes is not None:
                if "_runs" not in known:
                    known["_runs"] = LabelRuns()
                known["_runs"].count([(one.before, one.after)])
        return True
    finally:
        lock.end_write(True)


cdef inline ModelLock lock_of(model):
    """The lock of an estimator; all of them are `Locked`, which is not checked again."""
    return (<Locked> model)._lock


cdef object answer(model, x, values, bint as_label):
    """Score(s) or label of one example, see `score` and `classify`."""
    cdef dict known = PyObject_GenericGetDict(model, NULL)
    cdef OneByOne one = ready(known)
    cdef Py_ssize_t k, best = 0, n
    cdef double few[2 * SCRATCH]
    cdef double[::1] many
    cdef double *f = few
    if one is None or known.get("normalize"):
        return None
    n = one.learner.n_out
    if n > SCRATCH:
        many = np.empty(2 * n)
        f = &many[0]
    if not one.score(x, values, f, f + n):
        return None
    if not as_label:
        return f[0] if n == 1 else [f[k] for k in range(n)]
    if n == 1:
        best = 1 if f[0] > 0.0 and len(one.labels) > 1 else 0
    else:
        for k in range(1, len(one.labels)):
            if f[k] > f[best]:
                best = k
    return one.labels[best]


def score(model, x, values):
    """Score(s) of one example as a float or a list; None when it is not a usual one."""
    cdef ModelLock lock = lock_of(model)
    lock.read()
    try:
        return answer(model, x, values, False)
    finally:
        lock.end_read()


def classify(model, x, values):
    """The label of one example, which is never None; None when it is not a usual one."""
    cdef ModelLock lock = lock_of(model)
    lock.read()
    try:
        return answer(model, x, values, True)
    finally:
        lock.end_read()
