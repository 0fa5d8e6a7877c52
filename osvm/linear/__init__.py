"""Linear online learners on sparse or dense rows.

Sources: Bagnell's notes on the online SVM, the slides on f(w, b) = ½||w||² +
C Σ hinge, Kitani's lecture on online techniques, and the losses of
Vishwanathan, Schraudolph, Smola (JMLR 2006).  One step is described in
`osvm/linear/learner.pyx`; parts come from `osvm.losses` and `osvm.schedules`.
"""

from osvm.linear.classifier import LinearClassifier
from osvm.linear.regressor import LinearNovelty, LinearRegressor

__all__ = ["LinearClassifier", "LinearNovelty", "LinearRegressor"]

# The classes live in private modules, one concept each; this is their address.
for _class in (LinearClassifier, LinearNovelty, LinearRegressor):
    _class.__module__ = __name__
