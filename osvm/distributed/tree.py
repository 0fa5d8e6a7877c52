"""Results of many tasks folded into one, in an order that no engine can change.

The tasks of n blocks are the leaves of a tree of fixed shape: node i of a level is the fold
of nodes `FAN_IN * i, ...` of the level below.  A fold is submitted as soon as its children
are there, so that few results wait; which results arrive first, which are lost and come
again, and who computes them changes when a fold is made, never what is folded.

An engine is an object with `broadcast` and `reduce`.  `TaskEngine` gives `reduce` to engines
that run single tasks; those that know nothing but whole jobs (Spark) bring their own, on
`levels`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

FAN_IN = 4
MOST_LOSSES = 100  # of one result; then nobody will compute it
Node = tuple[int, int]  # level and number
Leaf = Callable[[int, Any, Any], Any]  # number of the block, the block, what is shared
Fold = Callable[[list[Any], Any], Any]  # results in order, what is shared


def levels(n: int) -> list[int]:
    """Nodes of each level of the tree over n leaves; the last has one.

    Examples
    --------
    >>> levels(18)
    [18, 5, 2, 1]
    """
    widths = [n]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // FAN_IN))
    return widths


def children(node: Node, widths: list[int]) -> list[Node]:
    level, number = node
    stop = min(widths[level - 1], (number + 1) * FAN_IN)
    return [(level - 1, k) for k in range(number * FAN_IN, stop)]


class TaskEngine:
    """`reduce` for an engine that runs single tasks.

    An engine gives `submit`, `finished` and `result`.  Tokens stand for results, which stay
    where they were computed: the driver holds the last one only.
    """

    def broadcast(self, value: Any) -> Any:
        """What `submit` passes to tasks as `shared`, sent to each worker once."""
        return value

    def submit(self, function: Any, *arguments: Any, level: int = 0) -> Any:
        """A token for ``function(*arguments)``; arguments may be tokens, or lists of them."""
        raise NotImplementedError

    def finished(self, tokens: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
        """Some tokens whose tasks have ended, each with whether its result is there.

        A token may come twice, or come that nobody waits for.  A task that raised is there:
        `result` raises.
        """
        raise NotImplementedError

    def result(self, token: Any) -> Any:
        """The result of a task; what the task raised is raised here."""
        raise NotImplementedError

    def reduce(self, leaf: Leaf, blocks: Sequence[Any], fold: Fold, shared: Any) -> Any:
        """The fold of leaf(k, block, shared) over all blocks."""
        widths = levels(len(blocks))
        root: Node = (len(widths) - 1, 0)
        running: dict[Any, Node] = {}
        done: dict[Node, Any] = {}
        lost: Counter[Node] = Counter()

        def start(node: Node) -> None:
            level, number = node
            if level == 0:
                token = self.submit(leaf, number, blocks[number], shared)
            else:
                parts = [done[child] for child in children(node, widths)]
                token = self.submit(fold, parts, shared, level=level)
            running[token] = node

        def forget(node: Node) -> None:
            """Compute everything below a node anew."""
            done.pop(node, None)
            if node[0] == 0:
                if node not in running.values():
                    start(node)
                return
            for child in children(node, widths):
                forget(child)

        for number in range(len(blocks)):
            start((0, number))
        while root not in done:
            for token, is_there in self.finished(list(running)):
                node = running.pop(token, None)
                if node is None:
                    continue
                if not is_there:
                    lost[node] += 1
                    if lost[node] > MOST_LOSSES:
                        raise RuntimeError(
                            f"a result was lost {lost[node]} times (level {node[0]}, number "
                            f"{node[1]}): are its rows still there?"
                        )
                    forget(node)
                    continue
                done[node] = token
                if node == root:
                    break
                parent = (node[0] + 1, node[1] // FAN_IN)
                if all(child in done for child in children(parent, widths)):
                    start(parent)
                for child in children(node, widths) if node[0] else []:
                    done.pop(child, None)  # folded: the engine may drop it
        return self.result(done[root])


class InProcess(TaskEngine):
    """All tasks in this process, one after the other."""

    def __init__(self) -> None:
        self._leaves: deque[Any] = deque()
        self._folds: list[Any] = []

    def submit(self, function: Any, *arguments: Any, level: int = 0) -> Any:
        token = _Result(function, arguments)
        (self._folds if level else self._leaves).append(token)
        return token

    def finished(self, tokens: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
        token = self._folds.pop() if self._folds else self._leaves.popleft()
        token.compute()
        yield token, True

    def result(self, token: Any) -> Any:
        return token.value


class _Result:
    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self.work: Any = (function, arguments)

    def compute(self) -> None:
        function, arguments = self.work
        self.value = function(*map(_opened, arguments))
        self.work = None


def _opened(argument: Any) -> Any:
    if isinstance(argument, _Result):
        return argument.value
    if isinstance(argument, list):
        return [_opened(item) for item in argument]
    return argument
