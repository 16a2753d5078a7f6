"""Threads' answers and their turns, compiled and in Python, driven with the same steps; see `kernel_targets`.

One thread takes all steps, so that they are the same: it is woken before it sleeps, or does not sleep long.
"""

from random import Random
from types import ModuleType
from typing import Any

from kernel_inputs import expect, module, target


class Turns:
    """A chain and some answers, compiled or in Python."""

    def __init__(self, kind: ModuleType, count: int) -> None:
        self._kind = kind
        self.chain = kind.WakeChain()
        self.answers = [kind.ThreadAnswer(self.chain) for _ in range(count)]

    def step(self, name: str, number: int, value: Any) -> Any:
        """Take a step, and return what came of it."""
        answer = self.answers[number]
        if name == "new":
            self.answers[number] = self._kind.ThreadAnswer(self.chain)
        elif name in ("set_result", "set_exception"):
            getattr(answer, name)(value)
        elif name in ("has_left", "is_reading", "wakes_next"):
            setattr(answer, name, bool(value % 2))
        elif name == "sleep":
            answer.sleep(0.0)
        elif name == "watch":
            return bool(answer.watch(0.0, value))
        elif name in ("wake_next", "release"):
            return bool(getattr(self.chain, name)()) if name == "wake_next" else self.chain.release()
        else:
            answer.wake()
        return None

    def state(self) -> list[Any]:
        """Return all that can be seen."""
        return [
            bool(self.chain),
            *(
                (answer.outcome, answer.done(), answer.has_left, answer.is_reading, answer.wakes_next)
                for answer in self.answers
            ),
        ]


STEPS = (
    *("set_result", "set_exception", "sleep", "watch", "wake", "wake_next", "release", "new"),
    *("has_left", "is_reading", "wakes_next"),
)


@target("thread_answers.ThreadAnswer", "thread_answers.WakeChain")
def thread_answers(random: Random) -> None:
    from pyromq.net import thread_answers as in_python

    count = random.randint(1, 6)
    kinds = [Turns(kind, count) for kind in (module("thread_answers"), in_python)]
    for _ in range(random.randint(1, 60)):
        name, number, value = random.choice(STEPS), random.randrange(count), random.randint(1, 1 << 40)
        came = [turns.step(name, number, value) for turns in kinds]
        expect(came[0] == came[1], f"{name} returns the same")
        expect(kinds[0].state() == kinds[1].state(), f"after {name} the state is the same")
