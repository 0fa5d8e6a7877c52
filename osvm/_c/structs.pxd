# The private structs, and no function: rows that are kept, columns at work, what is behind an
# Expansion and a Fixed of core/typedefs.pxd.  A header whose functions a module does not call is
# still compiled into it.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t

from osvm.core.typedefs cimport Expansion, Fixed, Kernel, Rows

# Rows that stay ("slots").  Arrays belong to the object that made the struct.
cdef struct Store:
    const Kernel *kernel
    bint f64                # float64 rows and kernel values, else float32
    bint sparse
    bint near               # rbf in few dimensions: distances instead of dot products
    Py_ssize_t d            # features
    Py_ssize_t n            # slots in use
    void *X                 # dense: n x d
    void *turned            # near: d x n
    void *values            # sparse: an arena of entries ...
    int32_t *columns
    Py_ssize_t *start       # ... slot s holds entries start[s] to start[s] + length[s]
    Py_ssize_t *length
    Py_ssize_t end          # first free entry of the arena
    const Rows *rows        # sparse, without an arena: slot s is row order[s] of any type
    const Py_ssize_t *order  # NULL: row s
    void *row_values        # room to convert the longest of these rows
    int32_t *row_columns
    void *sq                # ||x_s||^2
    double *k_self          # k(x_s, x_s)
    Py_ssize_t *ids         # precomputed kernel: which column of X belongs to the slot

# Columns of a block: copies of examples, or of slots.
cdef struct Tile:
    Py_ssize_t n            # columns
    Py_ssize_t width        # sparse: n, rounded up
    void *X                 # dense: n x d
    void *turned            # near: d x n
    void *values            # sparse: the entries of column b from start[b] to start[b + 1]
    int32_t *columns
    Py_ssize_t *start
    void *D                 # sparse: D[map[feature] * width + b], row 0 all zero
    int32_t *map            # d entries, 0 where no column has the feature
    void *sq
    double *k_self
    Py_ssize_t *ids
    size_t room[9]          # bytes allocated
    Py_ssize_t map_size


# ------------------------------------------------------------- buffer.pxd

cdef enum:
    N_VICTIMS = 32          # slots whose sums are known ahead

# Kernel values of some columns with every slot, and the raw sums over the slots.
cdef struct Sums:
    Py_ssize_t n            # columns
    void *kv                # kv[s * n + b]
    double *fa              # fa[k * n + b] = sum_s A[s, k] kv[s, b], with A for f.coef
    double *fb              # the same with B
    size_t room[3]

cdef struct Buffer:
    Expansion f             # what a client sees; alpha = a A with a for f.scale, A for f.coef
    Store store
    Kernel kernel           # what store.kernel points at
    Py_ssize_t capacity     # slots allocated
    Py_ssize_t entries      # entries that the arena has room for
    Py_ssize_t head         # the oldest slot, once the buffer is full
    int eviction            # an ExpansionEviction
    bint trace              # beta is kept
    bint norm               # ||f||^2 is kept, and with the trace <f, z>
    bint average            # beta is the running mean of alpha
    bint mean_scores        # scores of that mean are wanted of each block
    double p                # beta = p A + q B
    double q
    double *B               # capacity x K
    double *size            # of the term, squared and with A for alpha, as eviction wants it
    double *row_sq          # EXPANSION_CHANGE: sum of k(x_s, x_r)^2 over the slots r
    const double *tables    # EXPANSION_MERGE: see merging.pxd
    Py_ssize_t *slot_of     # slot of row i of a training set, or -1; NULL in a stream
    bint clean_b            # B is zero
    # the columns at work: a block of examples, and slots that may be evicted next
    Tile tile
    Sums block
    Tile victim_tile
    Sums victims
    Py_ssize_t n_victims    # 0: none known
    Py_ssize_t victim_slot[N_VICTIMS]  # of column c; -1 when gone
    int32_t *victim_of      # column of slot s, or -1
    double *work            # 16 K numbers, the second half for the loop
    void *column            # one kernel value per column of the block
    size_t column_room
    void *spare_map         # a tile's feature map, all zero, for the next one who predicts


# ------------------------------------------------------------- row_set.pxd

cdef struct RowSet:
    Store store
    Tile tile
    void *block             # room for MAX_BLOCK x CHUNK values
    bint own_rows           # store.X is this struct's own copy


# ------------------------------------------------------------- column_cache.pxd

# Values start .. stop - 1 of some columns, each to its own array; a Status.  `gram`, where it
# is not NULL, gets the values of the columns' rows among themselves instead.
ctypedef int (*column_fn_t)(void *user, const Py_ssize_t *columns, Py_ssize_t count,
                            Py_ssize_t start, Py_ssize_t stop, void **out,
                            void *gram) noexcept nogil

cdef struct ColumnCache:
    Py_ssize_t n            # length of a column
    Py_ssize_t n_slots      # columns that the cache holds
    Py_ssize_t used
    bint wide               # float64 columns
    bint near               # columns are cheap: rbf in few dimensions
    double offset           # added to every kernel value
    Py_ssize_t hits         # columns found in the cache
    double computed         # columns computed (parts count as fractions)
    RowSet *rows            # computes the values, unless ...
    column_fn_t column_fn   # ... this is set; it adds the offset itself
    void *user
    char *store             # n_slots x n values
    Py_ssize_t *slot_of     # column -> slot or -1
    Py_ssize_t *col_of      # slot -> column or -1
    Py_ssize_t *length      # slot -> number of valid values
    Py_ssize_t *newer       # linked list of slots by last use
    Py_ssize_t *older
    Py_ssize_t newest
    Py_ssize_t oldest


# ------------------------------------------------------------- fixed_set.pxd

cdef struct FixedSet:
    Fixed f
    ColumnCache *cache
    double *room        # of the matrix products
    double *memory      # alpha and outputs where they are this struct's own
    # of a set that fixed_new made
    Kernel kernel
    RowSet own_rows
    ColumnCache own_cache
