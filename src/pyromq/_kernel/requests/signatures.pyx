"""Whether a signed request may pass: what `pyromq.broker.access.control` let through before, and no other.

    AccessKey, code, fields that say what is needed     was it let through? ─► the account's key
    all fields by name, the body                        signed with this key, for every request anew

What the end of a transaction and a send-back need is said by the message that they name by its position: by its
topic, and by the topic that it waits for. The message is looked up for every request anew.

Python teaches what an account may do (`learn`), and from which hosts everything is let in (`learn_host`). It
has both forgotten when the accounts change. What is not known, and what does not match, is left to Python, which
refuses it.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.blocks cimport Block, need
from pyromq._kernel.codec.frames cimport (
    FIELDS_MAX, READ, UNESCAPE_BEYOND, Field, Frame, Span, find_field, read_frame, read_number, unescape
)
from pyromq._kernel.codec.layout cimport Plain, Text
from pyromq._kernel.codec.sha1 cimport SIGNATURE_CHARACTERS, SigningKey
from pyromq._kernel.storage.again cimport value_in
from pyromq._kernel.storage.log_views cimport LogViews

cdef enum:
    #: Each character may stand as `\u00xx`.
    GIVEN_BYTES_MAX = 6 * SIGNATURE_CHARACTERS
    PART_BYTES_MAX = 65535


cdef class Signatures:
    """Looks at signed requests. One for each broker.

    `rules` says of each code by which fields Python finds out what is needed, and by the message in `log` at the
    position that which field gives, or None.
    """

    def __cinit__(self, dict rules not None, log=None):
        cdef Rule *rule
        if len(rules) > RULES_MAX:
            raise ValueError("too many rules")
        self._named = tuple(rules.items())
        self._log, self._views = log, LogViews()
        for code, (fields, place) in self._named:
            if len(fields) > FACT_FIELDS_MAX:
                raise ValueError(f"code {code} has too many fields")
            rule = &self._rules[self._rule_count]
            rule.code = code
            for name in fields:
                rule.names[rule.field_count] = PyBytes_AS_STRING(<bytes?> name)
                rule.lengths[rule.field_count] = PyBytes_GET_SIZE(name)
                rule.field_count += 1
            if place is not None:
                if log is None:
                    raise ValueError(f"there is no log for code {code}")
                rule.place = PyBytes_AS_STRING(<bytes?> place)
                rule.place_length = PyBytes_GET_SIZE(place)
            self._rule_count += 1
        self.forget_all()

    def __dealloc__(self):
        free(self._values.bytes)

    def learn(self, bytes access_key not None, SigningKey key not None, int32_t code, tuple values not None):
        """Let requests of this code and with these fields pass that are signed with the key.

        Behind the fields are the topic of the message and the one that it waits for, where the code has a place.
        Return whether that was new; it is not when there is no rule for the code, or the values are too long.
        """
        cdef uint8_t fact[FACT_BYTES_MAX]
        cdef uint8_t *at
        cdef Rule *rule = self._rule_of(code)
        if rule == NULL or rule.field_count + (0 if rule.place == NULL else 2) != len(values):
            return False
        at = _begin(fact, code)
        for value in (access_key, *values):
            at = _add_part(
                at, fact + FACT_BYTES_MAX, <const uint8_t *> PyBytes_AS_STRING(<bytes?> value), PyBytes_GET_SIZE(value)
            )
            if at == NULL:
                return False
        name = PyBytes_FromStringAndSize(<char *> fact, at - fact)
        if self._known.get(name) is key:
            return False
        self._known[name] = key
        return True

    def learn_host(self, bytes host not None):
        """Let everything pass from a host."""
        self._white_hosts.add(host)

    def forget_all(self):
        """Leave all requests to Python, until they are learnt again."""
        self._known = {}
        self._white_hosts = set()

    @property
    def known_count(self):
        """The number of facts and hosts."""
        return len(self._known) + len(self._white_hosts)

    def lets_pass(self, received, bytes host not None):
        """Return whether the frame at the front of received bytes passes."""
        cdef Frame frame
        cdef const uint8_t *at
        cdef Py_ssize_t length
        if isinstance(received, bytes):
            at, length = <const uint8_t *> PyBytes_AS_STRING(received), PyBytes_GET_SIZE(received)
        else:
            at = <const uint8_t *> PyByteArray_AS_STRING(<bytearray?> received)
            length = PyByteArray_GET_SIZE(received)
        try:
            return read_frame(at, at + length, &frame) == READ and self.allows(&frame, host)
        finally:
            self.release()

    cdef bint allows(self, Frame *frame, bytes host) except -1:
        """Return whether a frame passes; False leaves it to Python. Ask with a code that you handle."""
        cdef Rule *rule = self._rule_of(frame.code)
        cdef bytes fact
        if rule == NULL:
            return False
        if self._white_hosts and host in self._white_hosts:
            return True
        fact = self._fact_of(frame, rule)
        if fact is None:
            return False
        key = self._known.get(fact)
        return key is not None and self._is_signed(frame, key)

    cdef int release(self) except -1:
        """Let go of the log, which was looked at since the last time."""
        if self._is_looking:
            self._is_looking = False
            self._views.release()
        return 0

    cdef Rule *_rule_of(self, int32_t code) noexcept:
        cdef int i
        for i in range(self._rule_count):
            if self._rules[i].code == code:
                return &self._rules[i]
        return NULL

    cdef bytes _fact_of(self, Frame *frame, Rule *rule):
        """Return what was learnt if the frame may pass, None when a part of it is missing or unusual."""
        cdef uint8_t fact[FACT_BYTES_MAX]
        cdef uint8_t *at = _begin(fact, rule.code)
        cdef Span *field = find_field(frame, b"AccessKey", 9)
        cdef int i
        for i in range(rule.field_count + 1):
            if field == NULL or field.is_escaped:
                return None
            at = _add_part(at, fact + FACT_BYTES_MAX, field.at, field.length)
            if at == NULL:
                return None
            if i < rule.field_count:
                field = find_field(frame, rule.names[i], rule.lengths[i])
        if rule.place != NULL:
            at = self._add_topics(frame, rule, at, fact + FACT_BYTES_MAX)
            if at == NULL:
                return None
        return PyBytes_FromStringAndSize(<char *> fact, at - fact)

    cdef uint8_t *_add_topics(self, Frame *frame, Rule *rule, uint8_t *at, uint8_t *end) except? NULL:
        """Add to a fact what the message says that a request names by its position: its topic, and REAL_TOPIC.

        Return the byte behind them, NULL when there is no room, or no such message that is plain.
        """
        cdef Span *field = find_field(frame, rule.place, rule.place_length)
        cdef int64_t position = 0
        cdef Plain record
        cdef Text waits_for
        if field == NULL or not read_number(field, 0, 1 << 62, &position):
            return NULL
        if not self._is_looking:
            self._is_looking = True
            self._views.begin(self._log)
        if not self._views.read(position, &record):
            return NULL
        at = _add_part(at, end, record.topic.at, record.topic.length)
        if at == NULL:
            return NULL
        value_in(&record.properties, b"REAL_TOPIC\x01", 11, &waits_for)
        return _add_part(at, end, waits_for.at, waits_for.length)

    cdef bint _is_signed(self, Frame *frame, key) except -1:
        """Return whether a frame has the signature that a key makes of its fields and its body."""
        cdef Field *sorted_fields[FIELDS_MAX]
        cdef uint8_t given[GIVEN_BYTES_MAX + UNESCAPE_BEYOND]
        cdef uint8_t wanted[SIGNATURE_CHARACTERS]
        cdef Span *signature = find_field(frame, b"Signature", 9)
        cdef uint8_t *out
        cdef uint8_t difference = 0
        cdef Py_ssize_t length = 0
        cdef int i, count
        if signature == NULL or signature.length > GIVEN_BYTES_MAX:
            return False
        if _text(signature, given) != SIGNATURE_CHARACTERS:
            return False
        # Of a frame with this field there are two signatures.
        if find_field(frame, b"_UNIQUE_KEY_QUERY", 17) != NULL:
            return False
        count = _sort(frame, signature, sorted_fields)
        for i in range(count):
            length += sorted_fields[i].value.length
        need(&self._values, length + UNESCAPE_BEYOND)
        out = self._values.bytes
        for i in range(count):
            length = _text(&sorted_fields[i].value, out)
            if length < 0:
                return False
            out += length
        (<SigningKey?> key).sign(self._values.bytes, out - self._values.bytes, frame.body, frame.body_length, wanted)
        # As long for a good guess as for a bad one.
        for i in range(SIGNATURE_CHARACTERS):
            difference |= given[i] ^ wanted[i]
        return difference == 0


cdef inline Py_ssize_t _text(Span *field, uint8_t *out) noexcept nogil:
    """Write what a field says, with UNESCAPE_BEYOND bytes to spare; return its length, -1 when it is not ASCII."""
    if field.is_escaped:
        return unescape(field, out)
    memcpy(out, field.at, field.length)
    return field.length


cdef int _sort(Frame *frame, Span *left_out, Field **sorted_fields) noexcept nogil:
    """Put all fields but one in the order of their names; return how many they are."""
    cdef int i, at, count = 0
    cdef Field *field
    for i in range(frame.field_count):
        field = &frame.fields[i]
        if &field.value == left_out:
            continue
        # Most clients write them nearly in order.
        at = count
        while at > 0 and _is_before(&field.name, &sorted_fields[at - 1].name):
            sorted_fields[at] = sorted_fields[at - 1]
            at -= 1
        sorted_fields[at] = field
        count += 1
    return count


cdef inline bint _is_before(Span *name, Span *other) noexcept nogil:
    cdef Py_ssize_t shorter = name.length if name.length < other.length else other.length
    cdef int order
    if shorter and name.at[0] != other.at[0]:
        return name.at[0] < other.at[0]
    order = memcmp(name.at, other.at, shorter)
    return order < 0 or (order == 0 and name.length < other.length)


cdef inline uint8_t *_begin(uint8_t *fact, int32_t code) noexcept nogil:
    memcpy(fact, &code, sizeof(code))
    return fact + sizeof(code)


cdef inline uint8_t *_add_part(uint8_t *at, uint8_t *end, const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """Add a text and its length to a fact; return the byte behind it, NULL when there is no room."""
    if length > PART_BYTES_MAX or end - at < length + 2:
        return NULL
    at[0] = <uint8_t> (length >> 8)
    at[1] = <uint8_t> (length & 255)
    memcpy(at + 2, text, length)
    return at + 2 + length
