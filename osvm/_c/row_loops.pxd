# Loops over the values of one sparse row and one array of weights, by the types of their
# arguments (values, columns, weights: any of the eight combinations).
#
# The weights and the accumulator of their average may lie side by side, w[0] u[0] w[1] u[1] ...: a
# step on both then touches one cache line for each entry instead of two (`pairs_...`).
cdef extern from "../_c/row.h" nogil:
    void OSVM_APART(...)    # of a float or double variable
    void OSVM_PREFETCH(const void *address)
    # (x, j, n, w): the dot product
    double sparse_dot "osvm_sparse_dot"(...)
    # (x, j, n, w, next_x, next_j): the same, fetching another row's arrays
    double sparse_dot_ahead "osvm_sparse_dot_ahead"(...)
    # (x, j, n, c, w): w += c x
    void sparse_axpy "osvm_sparse_axpy"(...)
    # (x, j, n, c, w): the same; the change of ||w||^2
    double sparse_axpy_norm "osvm_sparse_axpy_norm"(...)
    # (x, j, n, c, d, w, u): w += c x and u += d x
    void sparse_axpy_both "osvm_sparse_axpy_both"(...)
    # (x, j, n, wu, next_x, next_j): `sparse_dot_ahead` of w, bit for bit
    double pairs_dot_ahead "osvm_pairs_dot_ahead"(...)
    # (x, j, n, c, d, wu): w += c x and u += d x
    void pairs_axpy "osvm_pairs_axpy"(...)
