"""The next step after an error, for the line under the error on a page."""

from pyromq.advice import advice_for
from pyromq.errors import PyroError, Refused


def next_step(error: PyroError) -> str:
    """Return what an operator does about an error, as a sentence."""
    advice = advice_for(error)
    if advice is None:
        return (
            "The broker's log says more."
            if isinstance(error, Refused)
            else "Try again; the dashboard's log says more."
        )
    text = advice.step[0].upper() + advice.step[1:]
    return text if text.endswith(("?", ".")) else f"{text}."
