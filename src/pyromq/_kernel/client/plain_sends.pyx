"""Plain sends of a producer: messages ─► frames on a connection, answers ─► results.

`pyromq.client.producer.plain_teaching` teaches what all messages to a queue have in common, cut out of a frame
that Python encoded (`Lane`), and the order of the properties (`Shape`). The plan of a send is the same in
Python, and has the say over everything else: a message, a route or an answer that is not plain is left to it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Size
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcpy

from types import MemberDescriptorType

from pyromq._kernel.client.unique_ids cimport ID_CHARACTERS_MAX, UniqueIds
from pyromq._kernel.codec.bigend cimport store32, write_decimal
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.codec.frames cimport READ, Frame, Span, find_field, read_bool, read_frame, read_number
from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.codec.sha1 cimport SIGNATURE_CHARACTERS, SigningKey

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    bint PyUnicode_IS_ASCII(object text)

cdef extern from *:
    """
    /* A new object of a class that has slots, nothing set. */
    static inline PyObject *pyromq_new(PyObject *type, PyObject *none) {
        return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, none, NULL);
    }
    /* Set a slot, of a frozen object too. */
    static inline int pyromq_put(PyObject *slot, PyObject *object, PyObject *value) {
        return Py_TYPE(slot)->tp_descr_set(slot, object, value);
    }
    """
    object pyromq_new(object type, object none)
    int pyromq_put(object slot, object object, object value) except -1

cdef extern from "json_text.h" nogil:
    const uint8_t *pyromq_skip_plain(const uint8_t *at, const uint8_t *end)

cdef enum:
    #: What follows a piece of a frame.
    NOTHING = 0
    OPAQUE_ = 1
    BORN_ = 2
    FLAG_ = 3
    PROPERTIES_ = 4
    SIGNATURE_ = 5
    MESSAGE_ID_ = 6
    KEYS_ = 7
    TAGS_ = 8
    #: The first of a message's own properties, in their order.
    VALUES_ = 9
    VALUES_MAX_ = 24
    TEXTS_MAX = VALUES_ + VALUES_MAX_
    #: A number as text.
    NUMBER_BYTES_MAX = 21
    #: Of a string of properties.
    PROPERTIES_BYTES_MAX = 32767
    #: Lengths of frame and header.
    LENGTHS = 8
    #: Answers to sends are short; a longer one is Python's to read.
    ANSWER_BYTES_MAX = 16384
    FLAG_RESPONSE = 1

OPAQUE = OPAQUE_
BORN = BORN_
FLAG = FLAG_
PROPERTIES = PROPERTIES_
SIGNATURE = SIGNATURE_
MESSAGE_ID = MESSAGE_ID_
KEYS = KEYS_
TAGS = TAGS_
VALUES = VALUES_
VALUES_MAX = VALUES_MAX_


cdef struct Piece:
    const uint8_t *at
    Py_ssize_t length
    int kind


cdef struct Text:
    const uint8_t *at
    Py_ssize_t length
    #: Characters that have a backslash before them in JSON.
    Py_ssize_t escapes


#: What is put between the pieces of one message.
cdef struct Filling:
    Text texts[TEXTS_MAX]
    int64_t born_ms
    int64_t flag
    int32_t opaque


cdef class Pieces:
    """A text that was cut where messages differ: literals, each with what follows it."""

    cdef list _literals
    cdef Piece *at
    cdef int count
    cdef Py_ssize_t bytes

    def __init__(self, list parts not None):
        cdef int i
        self._literals = [literal for literal, _ in parts]
        self.count = len(parts)
        self.at = <Piece *> calloc(self.count + 1, sizeof(Piece))
        if self.at == NULL:
            raise MemoryError
        for i in range(self.count):
            literal, kind = parts[i]
            if not 0 <= kind < TEXTS_MAX:
                raise ValueError(f"there is no kind {kind}")
            self.at[i] = Piece(
                <const uint8_t *> PyBytes_AS_STRING(literal), PyBytes_GET_SIZE(literal), kind
            )
            self.bytes += PyBytes_GET_SIZE(literal)

    def __dealloc__(self):
        free(self.at)


cdef class Shape:
    """The order of a message's properties: as text, and as text in JSON."""

    cdef Pieces _plain, _json

    def __init__(self, list plain not None, list json not None):
        self._plain = Pieces(plain)
        self._json = Pieces(json)


cdef class Lane:
    """One queue of a topic: where its messages go, and what their headers have in common.

    `signed` is the text that is signed, cut like the header.
    """

    cdef readonly object queue, wire_queue
    cdef readonly str address
    cdef int64_t _queue_id
    cdef Pieces _header, _signed

    def __init__(self, queue, wire_queue, str address not None, list header not None, list signed):
        self.queue = queue
        self.wire_queue = wire_queue
        self.address = address
        self._queue_id = wire_queue.queue_id
        self._header = Pieces(header)
        self._signed = None if signed is None else Pieces(signed)


cdef class PlainTopic:
    """The lanes of a topic, and whose turn it is among them."""

    cdef list lanes
    cdef object turns


cdef class PlainSend:
    """A send in flight. Python has what it needs to go on with the send in another way.

    `answer` is told the result, or whatever command the answer was. Nothing was sent where `frame` is None.
    """

    cdef readonly object answer
    cdef readonly double give_up_at, timeout_s
    cdef readonly Lane lane
    cdef readonly int32_t opaque
    cdef readonly bytes frame
    cdef readonly str message_id
    cdef readonly object link


cdef class PlainSends:
    """The plain sends of one producer."""

    cdef type _message_type, _result_type
    cdef object _sent, _routes, _revision, _default_region
    cdef dict _links, _topics
    cdef list _shapes, _descriptors
    cdef UniqueIds _ids
    cdef SigningKey _key
    cdef Py_ssize_t _body_bytes_max
    cdef Block _head, _signed

    def __cinit__(self, *args, **kwargs):
        self._topics = {}
        self._shapes = [{}, {}, {}, {}]

    def __init__(
        self, type message_type not None, type result_type not None, sent, str default_region not None,
        *, routes, dict links not None, UniqueIds ids not None, SigningKey key, Py_ssize_t body_bytes_max,
    ):
        self._message_type = message_type
        self._result_type = result_type
        self._sent = sent
        self._default_region = default_region
        self._routes = routes
        self._revision = None
        self._links = links
        self._ids = ids
        self._key = key
        self._body_bytes_max = body_bytes_max
        self._descriptors = [
            result_type.__dict__[name]
            for name in (
                "status", "message_id", "offset_message_id", "queue", "queue_offset", "transaction_id",
                "recall_handle", "region_id", "is_trace_on",
            )
        ]
        if any([type(slot) is not MemberDescriptorType for slot in self._descriptors]):
            raise TypeError("a result has slots")

    def __dealloc__(self):
        free(self._head.bytes)
        free(self._signed.bytes)

    # What is taught

    def learn_topic(self, str topic not None, list lanes not None, turns, revision):
        """Learn the lanes of a topic, as they follow from the routes of a revision."""
        cdef PlainTopic known = PlainTopic.__new__(PlainTopic)
        if not lanes or any([type(lane) is not Lane for lane in lanes]):
            raise ValueError("a topic has lanes")
        known.lanes = list(lanes)
        known.turns = turns
        if self._revision != revision:
            self._topics = {}
            self._revision = revision
        self._topics[topic] = known

    def learn_shape(self, tuple names not None, bint has_keys, bint has_tags, Shape shape not None):
        """Learn the order of properties of these names, with or without keys and tags."""
        if len(names) > VALUES_MAX_:
            raise ValueError("too many properties")
        (<dict> self._shapes[2 * has_keys + has_tags])[names] = shape

    def knows_topic(self, str topic not None):
        """Return whether the lanes of a topic are known."""
        return self._routes.revision == self._revision and topic in self._topics

    def knows_shape(self, tuple names not None, bint has_keys, bint has_tags):
        """Return whether the order of properties of these names is known."""
        return names in <dict> self._shapes[2 * has_keys + has_tags]

    @property
    def shape_count(self):
        """The number of shapes that are known."""
        return sum([len(shapes) for shapes in self._shapes])

    # Sends

    def begin(self, message, answer, int64_t now_ms, double give_up_at, double timeout_s):
        """Put a message's frame on its connection and return the send; None when it is not plain.

        Where the connection takes no frame now, the send has none, and the queue whose turn it was.
        """
        cdef Filling filling
        cdef PlainTopic topic
        cdef PlainSend send
        cdef Shape shape
        cdef list values = None
        if type(message) is not self._message_type or self._routes.revision != self._revision:
            return None
        name, body = message.topic, message.body
        if type(name) is not str or type(body) is not bytes:
            return None
        topic = <PlainTopic> self._topics.get(name)
        if topic is None or not 0 < PyBytes_GET_SIZE(body) <= self._body_bytes_max:
            return None
        # Held here: the texts are read in place.
        tags, keys = message.tags, _keys_of(message.keys)
        properties = message.properties
        if keys is None or type(properties) is not dict or not self._is_plain(message, &filling):
            return None
        if PyDict_Size(properties):
            values = list((<dict> properties).values())
        shape = self._shape_of(<dict> properties, bool(keys), bool(tags))
        if shape is None or not _read_texts(&filling, keys, tags, values):
            return None
        send = PlainSend.__new__(PlainSend)
        send.give_up_at, send.timeout_s, send.answer = give_up_at, timeout_s, answer
        filling.born_ms = now_ms
        if not self._name(send, shape, &filling):
            return None
        send.lane = <Lane> topic.lanes[next(topic.turns.turn()) % len(topic.lanes)]
        self._post(send, shape, &filling, <bytes> body)
        return send

    cdef bint _is_plain(self, message, Filling *filling) except -1:
        flag = message.flag
        if type(flag) is not int or not -0x80000000 <= flag <= 0x7FFFFFFF:
            return False
        filling.flag = flag
        return (
            not message.delay_level
            and message.wait_stored is True
            and message.delay is None
            and message.deliver_at is None
        )

    cdef Shape _shape_of(self, dict properties, bint has_keys, bint has_tags):
        cdef dict shapes = <dict> self._shapes[2 * has_keys + has_tags]
        return <Shape> shapes.get(tuple(properties) if PyDict_Size(properties) else ())

    cdef bint _name(self, PlainSend send, Shape shape, Filling *filling) except -1:
        """Give the message its id; say whether its properties are short enough."""
        cdef uint8_t id_[ID_CHARACTERS_MAX]
        cdef Py_ssize_t i, length
        length = self._ids.write(id_, filling.born_ms)
        send.message_id = PyUnicode_DecodeASCII(<const char *> id_, length, NULL)
        _read_text(send.message_id, &filling.texts[MESSAGE_ID_])
        length = shape._plain.bytes
        for i in range(shape._plain.count):
            if shape._plain.at[i].kind:
                length += filling.texts[shape._plain.at[i].kind].length
        return length <= PROPERTIES_BYTES_MAX

    cdef int _post(self, PlainSend send, Shape shape, Filling *filling, bytes body) except -1:
        """Put the frame on the lane's connection, if there is one that takes it now."""
        cdef Inlet inlet
        link = self._links.get(send.lane.address)
        if link is None or not link.takes_requests:
            return 0
        filling.opaque = send.opaque = link.next_opaque()
        send.frame = self._frame(send.lane, shape, filling, body)
        send.link = link
        link.expect(send.opaque, send)
        inlet = <Inlet?> link
        inlet.send_frames(send.frame)
        return 0

    cdef bytes _frame(self, Lane lane, Shape shape, Filling *filling, bytes body):
        """Return the frame of a message."""
        cdef uint8_t signature[SIGNATURE_CHARACTERS]
        cdef uint8_t *at
        cdef Py_ssize_t size = PyBytes_GET_SIZE(body), header
        cdef bytes frame
        cdef Text *signature_text = &filling.texts[SIGNATURE_]
        if lane._signed is not None:
            at = self._filled(&self._signed, lane._signed, shape._plain, filling, False)
            self._key.sign(
                self._signed.bytes, at - self._signed.bytes, <const uint8_t *> PyBytes_AS_STRING(body), size,
                signature,
            )
            signature_text.at, signature_text.length, signature_text.escapes = signature, SIGNATURE_CHARACTERS, 0
        at = self._filled(&self._head, lane._header, shape._json, filling, True)
        header = at - self._head.bytes
        frame = PyBytes_FromStringAndSize(NULL, LENGTHS + header + size)
        at = <uint8_t *> PyBytes_AS_STRING(frame)
        at = store32(at, <int32_t> (4 + header + size))
        at = store32(at, <int32_t> header)
        at = copy(at, self._head.bytes, header)
        copy(at, PyBytes_AS_STRING(body), size)
        return frame

    cdef uint8_t *_filled(
        self, Block *block, Pieces pieces, Pieces properties, Filling *filling, bint is_json
    ) except NULL:
        """Write pieces with what belongs between them into a block, and return the byte behind them."""
        cdef Py_ssize_t size = pieces.bytes + properties.bytes + 3 * NUMBER_BYTES_MAX
        cdef Py_ssize_t i
        for i in range(pieces.count):
            if pieces.at[i].kind == SIGNATURE_:
                size += SIGNATURE_CHARACTERS
        for i in range(properties.count):
            if properties.at[i].kind:
                size += filling.texts[properties.at[i].kind].length + filling.texts[properties.at[i].kind].escapes
        block.used = 0
        need(block, size)
        return _fill(block.bytes, pieces, properties, filling, is_json)

    # Answers

    def take_answers(self, links):
        """Give the answers at the front of what links received to their sends; say whether there was one."""
        cdef Inlet link
        cdef bint is_any = False
        for link in links:
            if self._take(link):
                is_any = True
        return is_any

    cdef bint _take(self, Inlet link) except -1:
        cdef Frame frame
        cdef const uint8_t *begin
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef PlainSend send
        cdef dict waiting = link.waiting
        # Held here: it is read in place.
        received = link.received
        link.look(&begin, &end)
        at = begin
        while end - at > LENGTHS:
            if read_frame(at, end, &frame) != READ or frame.end - at > ANSWER_BYTES_MAX:
                break
            if frame.flag != FLAG_RESPONSE or frame.code != 0:
                break
            known = waiting.get(frame.opaque)
            if type(known) is not PlainSend:
                break
            send = <PlainSend> known
            result = self._result(send, &frame)
            if result is None:
                break
            at = frame.end
            # Another thread may have given it up just now.
            if waiting.pop(frame.opaque, None) is not None and not send.answer.done():
                send.answer.set_result(result)
        if at == begin:
            return False
        link.skip_to(link.start + (at - begin))
        return True

    cdef object _result(self, PlainSend send, Frame *frame):
        """Return the result that an answer stands for, None when the answer is not plain."""
        cdef Span *field
        cdef int64_t number
        cdef bint is_trace_on = True
        cdef list put = self._descriptors
        cdef object region = self._default_region, transaction_id = None, handle = None
        field = find_field(frame, b"queueId", 7)
        if field == NULL or not read_number(field, 0, 0x7FFFFFFF, &number) or number != send.lane._queue_id:
            return None
        field = find_field(frame, b"TRACE_ON", 8)
        if field != NULL and not read_bool(field, &is_trace_on):
            return None
        field = find_field(frame, b"MSG_REGION", 10)
        if field != NULL and field.length:
            region = _text_of(field)
            if region is None:
                return None
            region = self._default_region if region == self._default_region else region
        field = find_field(frame, b"transactionId", 13)
        if field != NULL:
            transaction_id = _text_of(field)
            if transaction_id is None:
                return None
        field = find_field(frame, b"recallHandle", 12)
        if field != NULL:
            handle = _text_of(field)
            if handle is None:
                return None
        field = find_field(frame, b"msgId", 5)
        if field == NULL:
            return None
        offset_message_id = _text_of(field)
        field = find_field(frame, b"queueOffset", 11)
        if field == NULL or offset_message_id is None or not read_number(field, 0, 1 << 62, &number):
            return None
        result = pyromq_new(self._result_type, ())
        pyromq_put(put[0], result, self._sent)
        pyromq_put(put[1], result, send.message_id)
        pyromq_put(put[2], result, offset_message_id)
        pyromq_put(put[3], result, send.lane.queue)
        pyromq_put(put[4], result, number)
        pyromq_put(put[5], result, transaction_id)
        pyromq_put(put[6], result, handle)
        pyromq_put(put[7], result, region)
        pyromq_put(put[8], result, is_trace_on)
        return result


# Texts -----------------------------------------------------------------------------------------------------


cdef object _keys_of(keys):
    """Return the keys in one text, empty where there are none; None when they are not plain."""
    cdef Py_ssize_t size, at
    cdef const char *text
    cdef bint was_space = True
    if not keys:
        return ""
    words = -1
    if type(keys) is not str:
        if type(keys) is not list and type(keys) is not tuple:
            return None
        words = len(keys)
        if any([type(key) is not str for key in keys]):
            return None
        keys = keys[0] if words == 1 else " ".join(keys)
    if not PyUnicode_IS_ASCII(keys):
        # Other characters may be spaces for Python.
        return None
    text = PyUnicode_AsUTF8AndSize(keys, &size)
    spaces = 0
    for at in range(size):
        if text[at] == c' ':
            if was_space:
                return None
            spaces += 1
            was_space = True
        else:
            was_space = False
    return None if was_space or words not in (-1, spaces + 1) else keys


cdef bint _read_texts(Filling *filling, keys, tags, list values) except -1:
    """Look at the texts of a message; say whether all of them are plain."""
    cdef Py_ssize_t i
    if keys and not _read_text(keys, &filling.texts[KEYS_]):
        return False
    if tags and not _read_text(tags, &filling.texts[TAGS_]):
        return False
    if values is None:
        return True
    for i in range(len(values)):
        if not _read_text(values[i], &filling.texts[VALUES_ + i]):
            return False
    return True


cdef bint _read_text(text, Text *into) except -1:
    """Look at a text; say whether it is plain: not empty, without control characters."""
    cdef const uint8_t *at
    cdef const uint8_t *end
    if type(text) is not str:
        return False
    try:
        into.at = <const uint8_t *> PyUnicode_AsUTF8AndSize(text, &into.length)
    except UnicodeEncodeError:
        return False
    into.escapes = 0
    end = into.at + into.length
    at = pyromq_skip_plain(into.at, end)
    while at < end:
        if at[0] < 0x20:
            return False
        if at[0] == c'"' or at[0] == c'\\':
            into.escapes += 1
        at = pyromq_skip_plain(at + 1, end)
    return into.length > 0


cdef uint8_t *_fill(
    uint8_t *at, Pieces pieces, Pieces properties, Filling *filling, bint is_json
) noexcept:
    cdef Py_ssize_t i
    cdef Piece *piece
    for i in range(pieces.count):
        piece = &pieces.at[i]
        at = copy(at, piece.at, piece.length)
        if piece.kind == NOTHING:
            continue
        if piece.kind == BORN_:
            at = write_decimal(at, filling.born_ms)
        elif piece.kind == OPAQUE_:
            at = write_decimal(at, filling.opaque)
        elif piece.kind == FLAG_:
            at = write_decimal(at, filling.flag)
        elif piece.kind == PROPERTIES_:
            if properties is not None:
                at = _fill(at, properties, None, filling, is_json)
        elif is_json and filling.texts[piece.kind].escapes:
            at = _escaped(at, &filling.texts[piece.kind])
        else:
            at = copy(at, filling.texts[piece.kind].at, filling.texts[piece.kind].length)
    return at


cdef uint8_t *_escaped(uint8_t *at, Text *text) noexcept:
    """Write a text as JSON has it, and return the byte behind it."""
    cdef Py_ssize_t i
    for i in range(text.length):
        if text.at[i] == c'"' or text.at[i] == c'\\':
            at[0] = c'\\'
            at += 1
        at[0] = text.at[i]
        at += 1
    return at


cdef object _text_of(Span *span):
    """Return a field's text, None when it is written with escapes."""
    if span.is_escaped:
        return None
    return PyUnicode_DecodeASCII(<const char *> span.at, span.length, NULL)
