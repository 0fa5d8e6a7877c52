# A kernel expansion with a bounded buffer: f = sum_s alpha_s k(x_s, .), K outputs.
#
# Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), sections 4.3 and 5: shrinking costs
# O(1), ||f||^2 stays exact when rows leave.  Examples come in blocks: expansion_load computes
# the kernel values of a block with the buffer in one product, and every change of the buffer
# is carried into the rest of the block, so that the scores are those of one example after the
# other.  NORMA, SVMD and the kernel perceptrons of osvm are loops over these functions.
#
#     expansion_load(f, X, NULL, first, n, 0)
#     for t in range(n):
#         expansion_score(f, t, &score)
#         if y[first + t] * score <= 0.0:
#             expansion_insert(f, t, &y[first + t])
#     expansion_release(f)
from osvm._c.engine cimport (  # no-cython-lint: clients cimport these from here
    expansion_count, expansion_free, expansion_id, expansion_insert, expansion_load, expansion_new,
    expansion_release, expansion_resum, expansion_row, expansion_score, expansion_scores,
    expansion_self, expansion_shrink, expansion_trace_insert, expansion_trace_score,
    expansion_trace_scores, expansion_trace_shrink,
)
from osvm.core.typedefs cimport (  # no-cython-lint: clients may cimport these from here
    EXPANSION_CHANGE, EXPANSION_CHOOSE, EXPANSION_COEFFICIENT, EXPANSION_F64, EXPANSION_MERGE,
    EXPANSION_NORM, EXPANSION_OLDEST, EXPANSION_PROJECT, EXPANSION_SPARSE, EXPANSION_TERM,
    EXPANSION_TRACE, STATUS_BAD_ARGUMENT, STATUS_CALLBACK, STATUS_NO_MEMORY, STATUS_OK,
    Expansion, Kernel, Row, Rows, expansion_choose_fn,
)
