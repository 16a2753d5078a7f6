"""A cache of what follows from a text, bounded by the size of the texts: peers send them, of any length."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

R = TypeVar("R")


class TextCache(Generic[R]):
    """A function of one text that remembers its results, those asked for last, within so many characters.

    A text that would fill half of it is not remembered. What the function raises is not remembered either.
    """

    def __init__(self, function: Callable[[str], R], characters_max: int) -> None:
        self._function = function
        self._characters_max = characters_max
        self._results: OrderedDict[str, R] = OrderedDict()
        self._lock = Lock()
        #: How many characters the texts have that are remembered.
        self.characters = 0

    def __call__(self, text: str) -> R:
        """Return the function's result."""
        with self._lock:
            if text in self._results:
                self._results.move_to_end(text)
                return self._results[text]
        result = self._function(text)
        if len(text) <= self._characters_max // 2:
            self._remember(text, result)
        return result

    def discard(self, text: str) -> None:
        """Forget a result, if it is there."""
        with self._lock:
            if text in self._results:
                del self._results[text]
                self.characters -= len(text)

    def _remember(self, text: str, result: R) -> None:
        with self._lock:
            if text not in self._results:
                self.characters += len(text)
            self._results[text] = result
            while self.characters > self._characters_max:
                oldest, _ = self._results.popitem(last=False)
                self.characters -= len(oldest)


def text_cache(characters_max: int) -> Callable[[Callable[[str], R]], TextCache[R]]:
    """Decorate a function of one text with a `TextCache`."""
    return lambda function: TextCache(function, characters_max)
