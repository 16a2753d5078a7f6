"""HTTP/2 and gRPC's framing for the side that is called, on nghttp2: bytes in, events out, and the reverse.

`pyromq.net.http2.grpc_session` is the same on h2, and says what everything means. nghttp2 has HTTP/2's rules
and HPACK; here are gRPC's framing, the counts of `FrameGuard`, and what is queued. nghttp2 calls back while
it reads and while it writes; what happened is noted, and told to Python when it is done. The library is
looked for when this module is imported, which fails where there is none.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeLatin1
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from pyromq._kernel.codec.bigend cimport load32
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.http2.call_streams cimport CallHeaders, CallStream, path_of, put_header
from pyromq._kernel.http2.frame_counts cimport (
    DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM, FrameCounts, flood
)
from pyromq._kernel.http2.header_values cimport set_answer, set_copied, set_trailers
from pyromq._kernel.http2.nghttp2 cimport (
    nghttp2, nghttp2_data_provider, nghttp2_data_source, nghttp2_frame_hd, nghttp2_mem, nghttp2_nv, nghttp2_open,
    nghttp2_option, nghttp2_session, nghttp2_session_callbacks, nghttp2_settings_entry, pyromq_memory_calloc,
    pyromq_memory_close, pyromq_memory_free, pyromq_memory_malloc, pyromq_memory_open, pyromq_memory_realloc,
    pyromq_session_memory, ssize_t
)
from pyromq._kernel.http2.session_words cimport (
    DATA_FLAG_EOF, DATA_FLAG_NO_END_STREAM, ENDED_, ENHANCE_YOUR_CALM, ERR_CALLBACK_FAILURE, ERR_DEFERRED, FAILED_,
    FIRST_WINDOW_BYTES, GOAWAY_BYTES, MESSAGE_, NO_ERROR, OPENED_, OUTPUT_KEPT_BYTES, PREFIX_BYTES,
    PROTOCOL_ERROR, REFUSED_STREAM, RESETS_MAX, RESET_, SENT_TABLE_BYTES, SETTINGS_INITIAL_WINDOW_SIZE,
    SETTINGS_MAX_CONCURRENT_STREAMS, SETTINGS_MAX_HEADER_LIST_SIZE, STATUS_INTERNAL, STATUS_RESOURCE_EXHAUSTED
)

import os

from pyromq.net.http2.session_terms import percent_encoded

cdef nghttp2_session_callbacks *callbacks = NULL
cdef nghttp2_option *option = NULL
#: What leaves is gathered here; one session writes at a time.
cdef Block gathered


cdef class GrpcSession:
    """One connection of a server. After `error` is set nothing more is received."""

    cdef nghttp2_session *session
    cdef pyromq_session_memory memory
    cdef dict streams
    #: The stream that was looked for last: what arrives of one comes together, as a rule.
    cdef CallStream latest
    #: The headers of the call whose headers arrive, as `CallHeaders` has them.
    cdef Block headers
    cdef list events
    cdef bytes goaway
    cdef object failure
    cdef Py_ssize_t message_bytes_max, header_list_bytes_max
    cdef int32_t last_id
    cdef bint is_leaving, is_dead
    cdef FrameCounts counts
    cdef readonly Py_ssize_t queued_bytes, partial_bytes
    cdef readonly object error

    def __cinit__(self, limits):
        cdef nghttp2_settings_entry entries[3]
        cdef int32_t window_bytes = limits.window_bytes
        self.streams = {}
        self.events = []
        self.message_bytes_max = limits.message_bytes_max
        self.header_list_bytes_max = limits.header_list_bytes_max
        self._make_session()
        entries[0].settings_id = SETTINGS_MAX_CONCURRENT_STREAMS
        entries[0].value = limits.streams_max
        entries[1].settings_id = SETTINGS_INITIAL_WINDOW_SIZE
        entries[1].value = window_bytes
        entries[2].settings_id = SETTINGS_MAX_HEADER_LIST_SIZE
        entries[2].value = limits.header_list_bytes_max
        self._check(nghttp2.submit_settings(self.session, 0, entries, 3))
        if window_bytes > FIRST_WINDOW_BYTES:
            self._check(nghttp2.session_set_local_window_size(self.session, 0, 0, window_bytes))

    def __dealloc__(self):
        if self.session != NULL:
            nghttp2.session_del(self.session)
        pyromq_memory_close(&self.memory)
        free(self.headers.bytes)

    cdef int _make_session(self) except -1:
        cdef nghttp2_mem places = nghttp2_mem(
            &self.memory, pyromq_memory_malloc, pyromq_memory_free, pyromq_memory_calloc, pyromq_memory_realloc
        )
        pyromq_memory_open(&self.memory)
        self._check(nghttp2.session_server_new3(&self.session, callbacks, <void *> self, option, &places))
        self.memory.is_open = False  # What is allocated later comes and goes.
        return 0

    @property
    def stream_count(self):
        """The number of streams that are open."""
        return len(self.streams)

    @property
    def wants_output(self):
        """Whether `take_output` has bytes now, if it has room for them."""
        return self.goaway is not None or (not self.is_dead and nghttp2.session_want_write(self.session) != 0)

    cdef int _check(self, int result) except -1:
        if result < 0:
            raise MemoryError(nghttp2.strerror(result).decode())
        return 0

    # What arrives

    def receive(self, data):
        """Take bytes that arrived, and return what they mean; what is wrong with them is in `error`."""
        cdef const uint8_t[::1] view = data
        cdef ssize_t taken
        cdef list events
        if self.error is None and view.shape[0]:
            taken = nghttp2.session_mem_recv(self.session, &view[0], view.shape[0])
            if taken < 0:
                self.is_dead = True
                if self.failure is not None:
                    raise self.failure
                if self.error is None:
                    self._break(nghttp2.strerror(<int> taken).decode(), PROTOCOL_ERROR)
        if not self.headers.used and self.headers.room:
            # An idle connection keeps none of it.
            free(self.headers.bytes)
            self.headers.bytes = NULL
            self.headers.room = 0
        events = self.events
        self.events = []
        return events

    cdef CallStream _stream(self, int32_t stream_id):
        """Return a stream that is open, or None."""
        cdef CallStream latest = self.latest
        if latest is None or latest.stream_id != stream_id:
            latest = self.streams.get(stream_id)
            if latest is not None:
                self.latest = latest
        return latest

    cdef int _break(self, object error, int code) except -1:
        """End the connection: the peer did what it may not."""
        self.error = error
        self._say_goodbye(code)
        return ERR_CALLBACK_FAILURE

    cdef int _begin_frame(self, const nghttp2_frame_hd *head) except -1000:
        cdef const char *name = flood(&self.counts, head.type, head.flags, head.length)
        if name == NULL:
            return 0
        return self._break(f"a flood of {name.decode()}", ENHANCE_YOUR_CALM)

    cdef int _begin_headers(self, int32_t stream_id) except -1000:
        cdef CallStream stream
        if self._stream(stream_id) is not None:
            # Trailers of the client, which mean nothing.
            return 0
        self.headers.used = 0
        if stream_id > self.last_id:
            self.last_id = stream_id
        if self.is_leaving:
            return nghttp2.submit_rst_stream(self.session, 0, stream_id, REFUSED_STREAM)
        stream = CallStream.__new__(CallStream)
        stream.stream_id = stream_id
        self.streams[stream_id] = self.latest = stream
        return 0

    cdef int _header(
        self, int32_t stream_id, const uint8_t *name, size_t name_size, const uint8_t *value, size_t value_size
    ) except -1000:
        cdef CallStream stream = self._stream(stream_id)
        if stream is None:
            return 0
        stream.header_bytes += name_size + value_size + 32
        if stream.header_bytes > self.header_list_bytes_max:
            return self._break(
                f"headers of more than {self.header_list_bytes_max} bytes", ENHANCE_YOUR_CALM
            )
        if stream.is_open:
            return 0
        if name_size and name[0] == b":":
            if name_size == 7 and memcmp(name, b":method", 7) == 0:
                stream.is_post = value_size == 4 and memcmp(value, b"POST", 4) == 0
            elif name_size == 5 and memcmp(name, b":path", 5) == 0:
                stream.path = path_of(<const char *> value, value_size)
            return 0
        return put_header(&self.headers, name, name_size, value, value_size)

    cdef int _frame(self, const nghttp2_frame_hd *head) except -1000:
        cdef CallStream stream
        if head.type != DATA and head.type != HEADERS and head.type != RST_STREAM:
            return 0
        stream = self._stream(head.stream_id)
        if stream is None:
            return 0
        if head.type == RST_STREAM:
            stream.is_reset_by_peer = True
            return 0
        if not stream.is_open:
            self._open(stream)
        if head.flags & END_STREAM:
            stream.is_done = True
            if not stream.is_deaf:
                if stream.partial is not None:
                    self._fail(stream, STATUS_INTERNAL, "the request ends within a message")
                else:
                    self.events.append((ENDED_, stream.stream_id, None, None))
        return 0

    cdef int _open(self, CallStream stream) except -1:
        cdef CallHeaders headers = CallHeaders.__new__(CallHeaders)
        cdef const uint8_t *content_type
        cdef Py_ssize_t size = 0
        headers.packed = PyBytes_FromStringAndSize(<const char *> self.headers.bytes, self.headers.used)
        self.headers.used = 0
        stream.is_open = True
        stream.header_bytes = 0
        content_type = headers.find(b"content-type", 12, &size)
        if not stream.is_post:
            self._respond_http(stream, b"405")
        elif content_type == NULL or size < 16 or memcmp(content_type, b"application/grpc", 16) != 0:
            self._respond_http(stream, b"415")
        else:
            self.events.append((OPENED_, stream.stream_id, stream.path, headers))
        stream.path = None
        return 0

    cdef int _respond_http(self, CallStream stream, bytes status) except -1:
        cdef nghttp2_nv headers[1]
        stream.is_deaf = stream.has_headers = stream.is_finished = True
        set_copied(&headers[0], b":status", status, 0)
        self._check(nghttp2.submit_response(self.session, stream.stream_id, headers, 1, NULL))
        return 0

    cdef int _data(self, int32_t stream_id, const uint8_t *data, Py_ssize_t size) except -1000:
        cdef CallStream stream = self._stream(stream_id)
        cdef Py_ssize_t before, used
        if stream is None or stream.is_deaf:
            return 0
        if stream.partial is None:
            used = self._read_messages(stream, data, size)
            if used < size and not stream.is_deaf:
                stream.add_partial(data + used, size - used)
                self.partial_bytes += size - used
        else:
            before = PyByteArray_GET_SIZE(stream.partial)
            stream.add_partial(data, size)
            self.partial_bytes += size
            used = self._read_messages(
                stream, <const uint8_t *> PyByteArray_AS_STRING(stream.partial), before + size
            )
            if not stream.is_deaf and used:
                self.partial_bytes -= used
                if used == before + size:
                    stream.partial = None
                else:
                    del stream.partial[:used]
        if self.partial_bytes > self.message_bytes_max and not stream.is_deaf:
            self._fail(
                stream,
                STATUS_RESOURCE_EXHAUSTED,
                f"messages of which a part arrived have more than {self.message_bytes_max} bytes on this "
                "connection; send fewer at a time",
            )
        return 0

    cdef Py_ssize_t _read_messages(self, CallStream stream, const uint8_t *data, Py_ssize_t size) except -1:
        """Note the whole messages at the front of some bytes; return how many bytes they have."""
        cdef Py_ssize_t at = 0, length
        cdef const uint8_t *head
        while size - at >= PREFIX_BYTES:
            head = data + at
            length = <Py_ssize_t> <uint32_t> load32(head + 1)
            if head[0]:
                self._fail(
                    stream,
                    STATUS_INTERNAL,
                    "a message is marked as compressed, but no compression was agreed on",
                )
                return at
            if length > self.message_bytes_max:
                self._fail(
                    stream,
                    STATUS_RESOURCE_EXHAUSTED,
                    f"a message of {length} bytes; {self.message_bytes_max} are taken at most",
                )
                return at
            if length > size - at - PREFIX_BYTES:
                return at
            at += PREFIX_BYTES
            self.events.append((
                MESSAGE_, stream.stream_id, PyBytes_FromStringAndSize(<const char *> data + at, length), None
            ))
            at += length
        return at

    cdef int _fail(self, CallStream stream, int status, object text) except -1:
        self._hear_no_more(stream)
        self.events.append((FAILED_, stream.stream_id, status, text))
        return 0

    cdef int _hear_no_more(self, CallStream stream) except -1:
        stream.is_deaf = True
        if stream.partial is not None:
            self.partial_bytes -= PyByteArray_GET_SIZE(stream.partial)
            stream.partial = None
        return 0

    cdef int _closed(self, int32_t stream_id, uint32_t code) except -1000:
        cdef CallStream stream = self.streams.pop(stream_id, None)
        if stream is None:
            return 0
        if self.latest is stream:
            self.latest = None
        self._hear_no_more(stream)
        self.queued_bytes -= stream.drop_out()
        if stream.is_open and not stream.is_reset and (not stream.is_finished or code):
            self.events.append((RESET_, stream_id, code, bool(stream.is_reset_by_peer)))
        return 0

    # What leaves

    def send(self, int32_t stream_id, bytes message not None):
        """Send one message of a call; dropped if its stream is gone."""
        cdef CallStream stream = self._stream(stream_id)
        if stream is None or stream.is_finished or self.error is not None:
            return
        self.queued_bytes += stream.queue(message)
        self._start(stream)

    def send_framed(self, int32_t stream_id, bytes messages not None):
        """Send messages of a call that have gRPC's prefixes already; dropped if its stream is gone."""
        cdef CallStream stream = self._stream(stream_id)
        if stream is None or stream.is_finished or self.error is not None:
            return
        self.queued_bytes += stream.queue_framed(messages)
        self._start(stream)

    def finish(self, int32_t stream_id, int status, text):
        """End a call behind what was sent."""
        cdef CallStream stream = self._stream(stream_id)
        if stream is None or stream.is_finished or self.error is not None:
            return
        self._end(stream, status, text)
        if stream.has_headers:
            self._resume(stream)
        else:
            self._answer_without_messages(stream)

    def answer(self, int32_t stream_id, bytes message not None):
        """Send the one message of a call that ends well."""
        cdef CallStream stream = self._stream(stream_id)
        if stream is None or stream.is_finished or self.error is not None:
            return
        self.queued_bytes += stream.queue(message)
        self._end(stream, 0, "")
        self._start(stream)

    def reset(self, int32_t stream_id, uint32_t code):
        """End a stream without a status; what waits to be sent is dropped."""
        cdef CallStream stream = self._stream(stream_id)
        if stream is None or self.error is not None:
            return
        self._hear_no_more(stream)
        self.queued_bytes -= stream.drop_out()
        stream.is_finished = stream.is_reset = True
        self._check(nghttp2.submit_rst_stream(self.session, 0, stream_id, code))

    def unsent(self, int32_t stream_id):
        """Return how many bytes of a stream wait to be sent."""
        cdef CallStream stream = self._stream(stream_id)
        return 0 if stream is None else stream.out_bytes

    def ping(self):
        """Ask the peer whether it is there."""
        if self.error is None:
            self._check(nghttp2.submit_ping(self.session, 0, NULL))

    def shut_down(self, int code=NO_ERROR):
        """Tell the peer to open no more streams here; those that are open go on, unless it did wrong."""
        self._say_goodbye(code)

    cdef int _say_goodbye(self, int code) except -1:
        if not self.is_leaving:
            self.is_leaving = True
            # By nghttp2's own, streams of the peer that were on their way would be ignored, not refused.
            self.goaway = (
                b"\0\0\x08\x07\0\0\0\0\0" + self.last_id.to_bytes(4, "big") + code.to_bytes(4, "big")
            )
        return 0

    def take_output(self, Py_ssize_t room):
        """Return what is to be written, with at most so many bytes of messages, give or take a frame."""
        cdef const uint8_t *data = NULL
        cdef ssize_t size
        cdef bytes output
        self.counts.answers = 0
        gathered.used = 0
        while gathered.used < room and not self.is_dead:
            size = nghttp2.session_mem_send(self.session, &data)
            if size <= 0:
                if size < 0:
                    self.is_dead = True
                    if self.failure is not None:
                        raise self.failure
                    self.error = nghttp2.strerror(<int> size).decode()
                break
            need(&gathered, size)
            copy(gathered.bytes + gathered.used, data, size)
            gathered.used += size
            if data[3] == GOAWAY and self.error is None:
                # Ours is made elsewhere: this one says what nghttp2 has against the peer, as a rule.
                self.error = (
                    PyUnicode_DecodeLatin1(<const char *> data + GOAWAY_BYTES, size - GOAWAY_BYTES, NULL)
                    if size > GOAWAY_BYTES
                    else "a frame that HTTP/2 does not allow"
                )
        output = b""
        if gathered.used:
            output = PyBytes_FromStringAndSize(<const char *> gathered.bytes, gathered.used)
        if gathered.room > OUTPUT_KEPT_BYTES:
            free(gathered.bytes)
            gathered.bytes = NULL
            gathered.room = 0
        if self.goaway is not None:
            output += self.goaway
            self.goaway = None
        return output

    cdef int _end(self, CallStream stream, int status, object text) except -1:
        stream.is_finished = True
        stream.status = b"%d" % status if status else b"0"
        stream.text = percent_encoded(text) if status or text else None
        self._hear_no_more(stream)
        return 0

    cdef int _start(self, CallStream stream) except -1:
        """Have nghttp2 read what was queued."""
        cdef nghttp2_nv headers[2]
        cdef nghttp2_data_provider provider
        if stream.has_headers:
            return self._resume(stream)
        stream.has_headers = True
        set_answer(headers)
        provider.source.ptr = <void *> stream
        provider.read_callback = on_read
        return self._check(nghttp2.submit_response(self.session, stream.stream_id, headers, 2, &provider))

    cdef int _resume(self, CallStream stream) except -1:
        if stream.is_deferred:
            stream.is_deferred = False
            self._check(nghttp2.session_resume_data(self.session, stream.stream_id))
        return 0

    cdef int _answer_without_messages(self, CallStream stream) except -1:
        cdef nghttp2_nv headers[4]
        cdef size_t count
        stream.has_headers = True
        set_answer(headers)
        count = 2 + set_trailers(&headers[2], stream.status, stream.text)
        return self._check(nghttp2.submit_response(self.session, stream.stream_id, headers, count, NULL))

    cdef ssize_t _read(self, CallStream stream, uint8_t *into, size_t room, uint32_t *flags) except -1000:
        """Copy what a stream sends next."""
        cdef nghttp2_nv trailers[2]
        cdef Py_ssize_t copied = stream.copy_out(into, <Py_ssize_t> room)
        self.queued_bytes -= copied
        if stream.is_reset:
            return ERR_DEFERRED
        if not stream.out_bytes:
            if stream.is_finished:
                flags[0] |= DATA_FLAG_EOF | DATA_FLAG_NO_END_STREAM
                self._check(nghttp2.submit_trailer(
                    self.session, stream.stream_id, trailers, set_trailers(trailers, stream.status, stream.text)
                ))
            elif not copied:
                stream.is_deferred = True
                return ERR_DEFERRED
        return copied

    cdef int _sent(self, const nghttp2_frame_hd *head) except -1000:
        """Note a frame that leaves: behind an answer's end, a client that still sends is told to stop."""
        cdef CallStream stream
        if head.type == DATA:
            self.counts.data_sent += 1
        elif head.type == HEADERS and head.flags & END_STREAM:
            stream = self._stream(head.stream_id)
            if stream is not None and not stream.is_done:
                self._check(nghttp2.submit_rst_stream(self.session, 0, head.stream_id, NO_ERROR))
        return 0


# What nghttp2 calls: whatever is raised waits in the session, and ends the call of nghttp2.

cdef int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *own) noexcept:
    try:
        return (<GrpcSession> own)._begin_frame(head)
    except BaseException as error:
        return failed(own, error)


cdef int on_begin_headers(nghttp2_session *session, const nghttp2_frame_hd *head, void *own) noexcept:
    try:
        return (<GrpcSession> own)._begin_headers(head.stream_id)
    except BaseException as error:
        return failed(own, error)


cdef int on_header(
    nghttp2_session *session, const nghttp2_frame_hd *head, const uint8_t *name, size_t name_size,
    const uint8_t *value, size_t value_size, uint8_t flags, void *own
) noexcept:
    try:
        return (<GrpcSession> own)._header(head.stream_id, name, name_size, value, value_size)
    except BaseException as error:
        return failed(own, error)


cdef int on_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *own) noexcept:
    try:
        return (<GrpcSession> own)._frame(head)
    except BaseException as error:
        return failed(own, error)


cdef int on_data(
    nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t size, void *own
) noexcept:
    try:
        return (<GrpcSession> own)._data(stream_id, data, size)
    except BaseException as error:
        return failed(own, error)


cdef int on_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *own) noexcept:
    try:
        return (<GrpcSession> own)._closed(stream_id, code)
    except BaseException as error:
        return failed(own, error)


cdef int on_sent(nghttp2_session *session, const nghttp2_frame_hd *head, void *own) noexcept:
    try:
        return (<GrpcSession> own)._sent(head)
    except BaseException as error:
        return failed(own, error)


cdef ssize_t on_read(
    nghttp2_session *session, int32_t stream_id, uint8_t *into, size_t room, uint32_t *flags,
    nghttp2_data_source *source, void *own
) noexcept:
    try:
        return (<GrpcSession> own)._read(<CallStream> source.ptr, into, room, flags)
    except BaseException as error:
        return failed(own, error)


cdef int failed(void *own, object error) noexcept:
    (<GrpcSession> own).failure = error
    return ERR_CALLBACK_FAILURE


cdef int prepare() except -1:
    """Find the library: the one beside this module, which a wheel brings, or the system's."""
    global callbacks, option
    cdef const char *missing = NULL
    for path in (os.path.join(os.path.dirname(__file__), "libnghttp2.so.14"), "libnghttp2.so.14"):
        missing = nghttp2_open(os.fsencode(path))
        if missing == NULL:
            break
    else:
        raise ImportError(f"libnghttp2.so.14 cannot be used: {missing.decode()} is missing")
    if nghttp2.callbacks_new(&callbacks) or nghttp2.option_new(&option):
        raise MemoryError
    nghttp2.set_on_begin_frame(callbacks, on_begin_frame)
    nghttp2.set_on_begin_headers(callbacks, on_begin_headers)
    nghttp2.set_on_header(callbacks, on_header)
    nghttp2.set_on_frame_recv(callbacks, on_frame)
    nghttp2.set_on_data_chunk_recv(callbacks, on_data)
    nghttp2.set_on_stream_close(callbacks, on_close)
    nghttp2.set_on_frame_send(callbacks, on_sent)
    # Streams that ended need no memory: nothing here depends on them.
    nghttp2.option_set_no_closed_streams(option, 1)
    # Each connection has the table from its start; answers have three headers that come again.
    if nghttp2.option_set_max_deflate_dynamic_table_size != NULL:
        nghttp2.option_set_max_deflate_dynamic_table_size(option, SENT_TABLE_BYTES)
    # The link counts resets, and knows which of them are young: a consumer may cancel all that it holds.
    if nghttp2.option_set_stream_reset_rate_limit != NULL:
        nghttp2.option_set_stream_reset_rate_limit(option, RESETS_MAX, RESETS_MAX)
    return 0


prepare()
