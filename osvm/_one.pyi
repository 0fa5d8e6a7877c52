from typing import Any

from osvm._sgd import SGDLearner

class OneByOne:
    learner: SGDLearner
    index: Any
    def __init__(
        self,
        learner: SGDLearner,
        index: Any,
        novelty: bool,
        averaged: bool,
        curvature: float = ...,
    ) -> None: ...

def learn(model: Any, x: Any, values: Any, y: Any) -> bool: ...
def score(model: Any, x: Any, values: Any) -> Any: ...
def classify(model: Any, x: Any, values: Any) -> tuple[Any] | None: ...
