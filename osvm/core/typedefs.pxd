# Every C type of the library, in one place.
#
# Data come as float32 or float64 with int32 or int64 indices; weights are
# float32 or float64 on their own account.  Step sizes, scales and norms are
# always double, whatever the weights are.
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

# Weights; a separate fused type, so that any data meets any weights.
ctypedef fused weight_t:
    float32_t
    float64_t

# Which of the two a `void *` of weights points at.
cdef enum WeightKind:
    WEIGHT_F32 = 0
    WEIGHT_F64 = 1
