# Every C type of the library, in one place: numbers and structs, and no function.
#
# A header whose functions a module does not call is still compiled into it, so a module that
# only holds a struct cimports it from here; the headers of the functions offer it as well.
#
# Data come as float32 or float64 with int32 or int64 indices; weights are
# float32 or float64 on their own account.  Step sizes, scales and norms are
# always double, whatever the weights are.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t

ctypedef float float32_t
ctypedef double float64_t

# Values of a row.
ctypedef fused value_t:
    float32_t
    float64_t

# Column numbers and row starts of a CSR matrix.
ctypedef fused index_t:
    int32_t
    int64_t

# What rows_init_csr takes for both.
ctypedef fused csr_index_t:
    int
    long
    long long
    int32_t
    int64_t
    Py_ssize_t

# Weights; a separate fused type, so that any data meets any weights.
ctypedef fused weight_t:
    float32_t
    float64_t

# Which of the two a `void *` of weights points at.
cdef enum WeightKind:
    WEIGHT_F32 = 0
    WEIGHT_F64 = 1

# ---------------------------------------------------------------- rows: row.pxd

cdef enum RowKind:
    ROW_F32_I32 = 0
    ROW_F32_I64 = 1
    ROW_F64_I32 = 2
    ROW_F64_I64 = 3
    ROW_F32_DENSE = 4
    ROW_F64_DENSE = 5

# One example.
cdef struct Row:
    size_t struct_size
    const void *values
    const void *indices     # NULL when dense
    Py_ssize_t count        # stored values; the number of features when dense
    Py_ssize_t step         # dense: elements from one feature to the next; sparse: 1
    double scale            # multiplies every value
    int kind                # a RowKind

# All examples: a CSR matrix or a dense array in C, F or any other order.
cdef struct Rows:
    size_t struct_size
    const void *values
    const void *indices     # NULL when dense
    const void *indptr      # NULL when dense; same integer type as indices
    Py_ssize_t n_rows
    Py_ssize_t n_features
    Py_ssize_t row_step     # dense: elements from one row to the next
    Py_ssize_t step         # dense: elements from one feature to the next
    const double *row_scale  # NULL, or one factor per row
    int kind


# -------------------------------------------------- weights: svec.pxd, smat.pxd

# Weights of one output, w = s*v: see svec.pxd.
cdef struct SVec:
    size_t struct_size
    void *v                 # dim weights of the given kind
    void *u                 # the average's accumulator, or NULL
    Py_ssize_t dim
    int kind                # a WeightKind
    int track_norm          # keep sq_v up to date
    int averaging           # iterates are being averaged now
    double scale            # s
    double sq_v             # ||v||^2
    double avg_scale        # S
    double avg_count        # n
    double low              # fold when |s| leaves [low, high]
    double high

# Weights of K outputs, feature-major: see smat.pxd.
cdef struct SMat:
    size_t struct_size
    void *v                 # dim x n_out weights, feature-major
    void *u                 # the averages' accumulator, or NULL
    void *work              # n_out weights of scratch
    double *scale           # s, one per output
    double *sq_v            # ||column||^2, one per output
    double *avg_scale       # S, one per output
    double avg_count        # n, the same for all
    Py_ssize_t dim
    Py_ssize_t n_out
    int kind                # a WeightKind
    int track_norm
    int averaging
    double low
    double high


# ------------------------------------------------------------- losses: loss.pxd

# One of the three functions of a custom loss; must not need the GIL.
ctypedef double (*loss_fn)(double y, double f, void *user) noexcept nogil

cdef struct Loss:
    size_t struct_size
    int kind              # a LossKind
    double p0             # parameters, see LossKind
    double p1
    loss_fn value_fn      # custom only
    loss_fn dloss_fn
    loss_fn curvature_fn  # NULL: the curvature is 0
    void *user
    const double *delta   # graph_hinge: n_labels x n_labels distances, row = true label
    Py_ssize_t n_labels


# --------------------------------------------------------- step sizes: step.pxd

cdef struct Step:
    size_t struct_size
    int kind         # a StepKind
    double eta0
    double reg
    double t0
    double tau
    double C
    double mu        # SMD: the meta step size
    double decay     # SMD: lambda of the paper, the trace's memory
    double eta_min   # SMD: floor
    double eta_max   # SMD: cap
    double eta       # SMD: current value
    double forget    # adaptive: factor of the squared gradients per example
    double alpha     # coin betting: gradients that are bet as if they had been seen
    int flags        # adaptive: StepAdaptiveFlag


# ---------------------------------------------------------- kernels: kernel.pxd

# A custom kernel; must not need the GIL.
ctypedef double (*kernel_fn_t)(const Row *x, const Row *z, void *user) noexcept nogil

cdef struct Kernel:
    size_t struct_size
    int kind                # a KernelKind
    int degree
    double gamma
    double coef0
    kernel_fn_t kernel_fn   # custom only
    void *user


# ------------------------------------------------- expansions: expansion.pxd, fixed.pxd

# What functions that can fail return.
cdef enum Status:
    STATUS_OK = 0
    STATUS_NO_MEMORY = -1   # memory is short; nothing changed
    STATUS_BAD_ARGUMENT = -2  # a number out of range, a matrix of another width
    STATUS_CALLBACK = -3    # the caller's own function failed

# Which row leaves a full expansion.
cdef enum ExpansionEviction:
    EXPANSION_OLDEST = 0
    EXPANSION_COEFFICIENT = 1   # smallest ||alpha_s||
    EXPANSION_TERM = 2          # smallest norm of the term alpha_s k(x_s, .)
    EXPANSION_CHANGE = 3        # least change of f over the rows in the buffer
    EXPANSION_MERGE = 4         # the new term and its best partner become one
    EXPANSION_PROJECT = 5       # the smaller of the two is projected onto the larger
    EXPANSION_CHOOSE = 6        # choose_fn says which

cdef enum ExpansionFlag:
    EXPANSION_F64 = 1           # rows and kernel values in float64, else float32
    EXPANSION_SPARSE = 2        # rows are kept sparse, else dense
    EXPANSION_NORM = 4          # sq_norm is kept up to date, also through evictions
    EXPANSION_TRACE = 8         # a second expansion z over the same rows; implies NORM

cdef struct Expansion

# A caller's own rule; must not need the GIL.
ctypedef Py_ssize_t (*expansion_choose_fn)(const Expansion *f, void *user) noexcept nogil

# A kernel expansion with a bounded buffer, f = sum_s alpha_s k(x_s, .) with K outputs.
# expansion_new makes it; fields are to be read, but for choose_fn and user.
cdef struct Expansion:
    size_t struct_size
    Py_ssize_t n_out        # K
    Py_ssize_t budget       # slots at most; -1: no bound
    Py_ssize_t births       # rows ever inserted
    double scale            # alpha = scale * coef
    double *coef            # slots x n_out
    Py_ssize_t *birth       # of each slot's row: how many were inserted before it
    double sq_norm          # ||f||^2, with EXPANSION_NORM
    double inner            # <f, z>, with EXPANSION_TRACE
    const double *kappa     # n_out x n_out label kernel of the caller's, or NULL for delta
    expansion_choose_fn choose_fn   # EXPANSION_CHOOSE: the slot that is to go
    void *user

cdef enum:
    FIXED_BLOCK = 64        # rows at most that fixed_load takes

# A kernel expansion over a fixed set of rows with the outputs of all rows kept:
# outputs = K alpha for each of n_out expansions.  fixed_new makes it; fields are to be read.
cdef struct Fixed:
    size_t struct_size
    Py_ssize_t n            # rows
    Py_ssize_t n_out
    double *alpha           # n_out x n
    double *outputs         # n_out x n, right for every row between blocks
    Py_ssize_t count        # rows of the block at work
    const Py_ssize_t *rows  # their numbers
    double *gram            # count x count kernel values among them
    double *local           # n_out x FIXED_BLOCK: their outputs, with the changes so far
    double *delta           # n_out x FIXED_BLOCK: what fixed_flush has to add
