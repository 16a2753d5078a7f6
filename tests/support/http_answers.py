"""Answers of HTTP servers, whatever their status."""

import urllib.error
import urllib.request


def fetch(url: str, method: str = "GET") -> tuple[int, str]:
    """Return the status and the text of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
