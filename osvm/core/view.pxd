# A matrix of Python as Rows, an array as a pointer: the one public header that takes objects.
#
# Invariants
# - nothing is copied: the arrays belong to their owner, who outlives the view unchanged;
# - after view_rows every row can be read, and every column number of a sparse row is
#   within the matrix.  Values are not looked at: a NaN shows in the loss.
from osvm._c.engine cimport view_array, view_rows  # no-cython-lint: clients cimport both from here
from osvm.core.typedefs cimport Rows  # no-cython-lint: clients may cimport it from here
