"""An engine in this process that treats its tasks badly."""

import pickle
import random

from osvm.distributed import TaskEngine


class Token:
    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments
        self.lost = False


class Unreliable(TaskEngine):
    """Tasks end in any order; some are lost, some end twice, results vanish afterwards.

    Whatever crosses from task to task is pickled, as between machines.
    """

    def __init__(self, seed, lose=0.2, repeat=0.2, vanish=0.1):
        self.random = random.Random(seed)
        self.lose, self.repeat, self.vanish = lose, repeat, vanish
        self.ended, self.losses, self.calls = [], 0, 0

    def submit(self, function, *arguments, level=0):
        return Token(function, arguments)

    def finished(self, tokens):
        token = self.random.choice(tokens)  # delays and reorders
        if self.ended and self.random.random() < self.vanish:
            gone = self.random.choice(self.ended)  # its worker has died since
            gone.lost, self.losses = True, self.losses + 1
        if self.random.random() < self.lose or not self._compute(token):
            self.losses += 1
            yield token, False
            return
        self.ended.append(token)
        yield token, True
        if self.random.random() < self.repeat:
            yield token, True
        if self.ended and self.random.random() < self.repeat:
            yield self.random.choice(self.ended), True  # nobody waits for it any more

    def _compute(self, token):
        """False where something that the task needs is gone."""
        opened = []
        for argument in token.arguments:
            parts = argument if isinstance(argument, list) else [argument]
            if any(isinstance(part, Token) and part.lost for part in parts):
                return False
            values = [pickle.loads(p.value) if isinstance(p, Token) else p for p in parts]
            opened.append(values if isinstance(argument, list) else values[0])
        self.calls += 1
        token.value = pickle.dumps(token.function(*opened))
        return True

    def result(self, token):
        return pickle.loads(token.value)
