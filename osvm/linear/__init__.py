"""Linear online learners on sparse or dense rows.

Sources: Bagnell's notes on the online SVM, the slides on f(w, b) = ½||w||² +
C Σ hinge, Kitani's lecture on online techniques, and the losses of
Vishwanathan, Schraudolph, Smola (JMLR 2006).  One step is described in
`osvm/linear/learner.pyx`; parts come from `osvm.losses` and `osvm.schedules`.
"""

from osvm.linear.alma import AlmaClassifier
from osvm.linear.classifier import LinearClassifier
from osvm.linear.multilabel import MultilabelClassifier
from osvm.linear.novelty import LinearNovelty
from osvm.linear.regressor import LinearRegressor
from osvm.linear.svc import LinearSVC

__all__ = [
    "AlmaClassifier",
    "LinearClassifier",
    "LinearNovelty",
    "LinearRegressor",
    "LinearSVC",
    "MultilabelClassifier",
]

# The room is the public address of its classes; one module holds each.
for _name in __all__:
    globals()[_name].__module__ = __name__
