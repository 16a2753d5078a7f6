"""Numbers of HTTP/2, of nghttp2 and of gRPC, and what a session tells."""

cdef enum:
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    REFUSED_STREAM = 7
    ENHANCE_YOUR_CALM = 11

    #: nghttp2's.
    ERR_DEFERRED = -508
    ERR_CALLBACK_FAILURE = -902
    DATA_FLAG_EOF = 1
    DATA_FLAG_NO_END_STREAM = 2
    SETTINGS_MAX_CONCURRENT_STREAMS = 3
    SETTINGS_INITIAL_WINDOW_SIZE = 4
    SETTINGS_MAX_HEADER_LIST_SIZE = 6

    #: As `session_terms.py` says why.
    PREFIX_BYTES = 5
    RESETS_MAX = 1000000000
    #: A frame's head, a stream, an error code: a text may follow.
    GOAWAY_BYTES = 17
    FIRST_WINDOW_BYTES = 65535
    #: What is kept of the memory in which output is gathered.
    OUTPUT_KEPT_BYTES = 262144

    #: Of the headers that are sent, in HPACK's table.
    SENT_TABLE_BYTES = 256

    OPENED_ = 0
    MESSAGE_ = 1
    ENDED_ = 2
    FAILED_ = 3
    RESET_ = 4

    STATUS_RESOURCE_EXHAUSTED = 8
    STATUS_INTERNAL = 13
