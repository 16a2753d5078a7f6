"""Frames that cost their sender nothing, counted as `net/http2/frame_guard.py` does and says why."""

cdef enum:
    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9

    END_STREAM = 1
    ACK = 1
    END_HEADERS = 4

    ALLOWANCE = 1000
    SETTINGS_ALLOWANCE = 100
    SETTINGS_WEIGHT = 50
    ANSWERS_MAX = 500
    EMPTY_MAX = 100
    CONTINUATIONS_MAX = 6
    WINDOWS_PER_CALL = 2
    WINDOWS_PER_DATA = 20


cdef struct FrameCounts:
    #: Header blocks that arrived, and frames of DATA that were sent.
    long calls, data_sent
    long answers, continuations, empty, others, resets, settings, windows


cdef inline const char *flood(FrameCounts *counts, int kind, int flags, size_t length) noexcept:
    """Count a frame that begins; return the name of what there is too much of, NULL as a rule."""
    if kind == DATA:
        counts.empty = counts.empty + 1 if not length and not flags & END_STREAM else 0
    elif kind == HEADERS or kind == CONTINUATION:
        if kind == HEADERS:
            counts.calls += 1
            counts.continuations = 0
        else:
            counts.continuations += 1
            if counts.continuations > CONTINUATIONS_MAX:
                return b"CONTINUATION"
        counts.empty = counts.empty + 1 if not length and not flags & END_HEADERS else 0
    elif kind == WINDOW_UPDATE:
        counts.windows += 1
        if counts.windows > (
            ALLOWANCE + WINDOWS_PER_CALL * counts.calls + WINDOWS_PER_DATA * counts.data_sent
        ):
            return b"WINDOW_UPDATE"
        return NULL
    elif kind == RST_STREAM:
        counts.resets += 1
        if counts.resets > ALLOWANCE + counts.calls:
            return b"RST_STREAM"
        return NULL
    elif kind == PING or kind == SETTINGS:
        return answered(counts, kind, flags)
    elif kind != GOAWAY:
        return other(counts, b"PRIORITY")
    if counts.empty > EMPTY_MAX:
        return b"empty frames"
    return NULL


cdef inline const char *answered(FrameCounts *counts, int kind, int flags) noexcept:
    if flags & ACK:
        return other(counts, b"ACK")
    counts.answers += 1 if kind == PING else SETTINGS_WEIGHT
    if kind == SETTINGS:
        counts.settings += 1
        if counts.settings > SETTINGS_ALLOWANCE + counts.calls:
            return b"SETTINGS"
    if counts.answers <= ANSWERS_MAX:
        return NULL
    if kind == PING:
        return b"PING"
    return b"SETTINGS"


cdef inline const char *other(FrameCounts *counts, const char *name) noexcept:
    counts.others += 1
    if counts.others > ALLOWANCE + WINDOWS_PER_CALL * counts.calls:
        return name
    return NULL
