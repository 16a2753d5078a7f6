"""One HTTP request: what an address says. Blocking; a loop asks it on a thread."""

from pyromq.errors import ConnectFailed

#: An answer that is longer is no list of addresses.
ANSWER_BYTES_MAX = 64 * 1024
OK = 200


def fetch(url: str, timeout_s: float) -> bytes:
    """Return the body of an HTTP address; raise ConnectFailed unless it answers with status 200."""
    # Only now: few ask, and these modules are two megabytes of every process that has them.
    import http.client
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "pyromq"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            if answer.status != OK:
                raise ConnectFailed(f"{url} answers with status {answer.status}")
            body: bytes = answer.read(ANSWER_BYTES_MAX)
            return body
    except urllib.error.HTTPError as error:
        error.close()
        raise ConnectFailed(f"{url} answers with status {error.code}") from error
    except (OSError, http.client.HTTPException) as error:
        raise ConnectFailed(f"{url} does not answer: {error}") from error
