"""Whether a signed call of gRPC may be made: what `pyromq.broker.access.control` let in before, and no other.

    headers     authorization: MQv2-HMAC-SHA1 Credential=KEY/…, SignedHeaders=x-mq-date-time, Signature=HEX
                x-mq-date-time: the text that is signed
    need        of each topic and group: a permission in one byte, the length in two, the name

    account and need     were they let in? ─► the account's key
    the signed text      signed with this key, for every call anew

Python teaches what an account may do (`learn`), and from which connections everything is let in (`learn_host`).
When the rules change, both are forgotten. What is not known, and what does not match, is left to Python, which
refuses it: `pyromq.broker.grpc.grpc_access` does the same, and reads what is written in another way.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.sha1 cimport PYROMQ_SHA1_DIGEST, SigningKey
from pyromq._kernel.http2.call_streams cimport CallHeaders
from pyromq._kernel.requests.grpc_request cimport Text, host_of, is_plain, metadata_of

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    ACCESS_KEY_BYTES_MAX = 255
    AUTHORIZATION_BYTES_MAX = 4096
    SIGNED_BYTES_MAX = 4096
    #: What is learnt takes at most 768 bytes each.
    KNOWN_MAX = 100000

cdef const char *ALGORITHM = b"MQv2-HMAC-SHA1 "
cdef Py_ssize_t ALGORITHM_BYTES = 15


cdef struct Shown:
    Text access_key
    uint8_t signature[20]


cdef bint add_need(
    Need *need, int permission, const char *prefix, Py_ssize_t prefix_length, const Text *name
) noexcept nogil:
    """Add a topic or a group; return whether there is room, and the name is no system's."""
    cdef Py_ssize_t length = prefix_length + name.length
    cdef uint8_t *at = need.bytes + need.length
    if not name.length or name.at[0] == c'%' or need.length + length + 3 > NEED_BYTES_MAX:
        return False
    at[0] = <uint8_t> permission
    at[1] = <uint8_t> (length >> 8)
    at[2] = <uint8_t> (length & 255)
    memcpy(at + 3, prefix, prefix_length)
    memcpy(at + 3 + prefix_length, name.at, name.length)
    need.length += length + 3
    return True


cdef class GrpcSignatures:
    """Looks at signed calls. `rules` returns the rules that hold now."""

    def __init__(self, rules not None):
        self._rules = rules
        self._held = None
        self._known = {}
        self._white_hosts = {}

    @property
    def known_count(self):
        """The number of accounts' needs, and of connections."""
        return len(self._known) + len(self._white_hosts)

    def learn(self, rules, bytes access_key not None, SigningKey key not None, bytes need not None, caller not None):
        """Let an account make calls with this need, as these rules do: signed with the key, they are the caller's."""
        if not 0 < len(access_key) <= ACCESS_KEY_BYTES_MAX or not 0 < len(need) <= NEED_BYTES_MAX:
            return
        self._hold(rules)
        self._known[bytes((len(access_key),)) + access_key + need] = (key, caller)

    def learn_host(self, rules, bytes host not None, caller not None):
        """Let everything in from a connection, as these rules do."""
        self._hold(rules)
        self._white_hosts[host] = caller

    def caller_of(self, call, bytes need not None):
        """Return whose a call is that may be made; None leaves it to Python."""
        return self.admitted(call, <const uint8_t *> PyBytes_AS_STRING(need), PyBytes_GET_SIZE(need))

    cdef int _hold(self, rules) except -1:
        """Forget what follows from other rules; and all, when it is too much: names may vary for ever."""
        if rules is not self._held or len(self._known) + len(self._white_hosts) >= KNOWN_MAX:
            self._known.clear()
            self._white_hosts.clear()
            self._held = rules
        return 0

    cdef object admitted(self, call, const uint8_t *need, Py_ssize_t length):
        """Return whose a call is that may be made; None leaves it to Python."""
        cdef uint8_t wanted[PYROMQ_SHA1_DIGEST]
        cdef uint8_t difference = 0
        cdef Shown shown
        cdef Text text
        cdef int i
        if self._rules() is not self._held:
            return None
        if self._white_hosts:
            caller = self._white_hosts.get(host_of(call))
            if caller is not None:
                return caller
        metadata = metadata_of(call)
        # Texts that are looked at live as long as what has them: the headers, or these.
        authorization = None if isinstance(metadata, CallHeaders) else metadata.get("authorization")
        signed = None if isinstance(metadata, CallHeaders) else metadata.get("x-mq-date-time")
        if not look_at(metadata, b"authorization", 13, authorization, &text):
            return None
        if text.length > AUTHORIZATION_BYTES_MAX or not read_shown(&text, &shown):
            return None
        found = self._known.get(fact_of(&shown.access_key, need, length))
        if found is None or not look_at(metadata, b"x-mq-date-time", 14, signed, &text):
            return None
        if text.length > SIGNED_BYTES_MAX:
            return None
        (<SigningKey> (<tuple> found)[0]).code(text.at, text.length, wanted)
        # As long for a good guess as for a bad one.
        for i in range(PYROMQ_SHA1_DIGEST):
            difference |= shown.signature[i] ^ wanted[i]
        return (<tuple> found)[1] if difference == 0 else None


cdef bint look_at(metadata, const char *name, Py_ssize_t length, value, Text *text) except -1:
    """Look at a header; return whether it is there and of printable ASCII."""
    if isinstance(metadata, CallHeaders):
        text.at = (<CallHeaders> metadata).find(name, length, &text.length)
    elif value is None:
        return False
    else:
        text.at = <const uint8_t *> PyUnicode_AsUTF8AndSize(value, &text.length)
    return text.at != NULL and text.length > 0 and is_plain(text)


cdef bytes fact_of(const Text *access_key, const uint8_t *need, Py_ssize_t length):
    """Return the name of what was learnt."""
    cdef bytes fact = PyBytes_FromStringAndSize(NULL, 1 + access_key.length + length)
    cdef uint8_t *at = <uint8_t *> PyBytes_AS_STRING(fact)
    at[0] = <uint8_t> access_key.length
    memcpy(at + 1, access_key.at, access_key.length)
    memcpy(at + 1 + access_key.length, need, length)
    return fact


cdef bint read_shown(const Text *text, Shown *shown) noexcept nogil:
    """Read an authorization whose parts are there once each, with one blank at most before each."""
    cdef const uint8_t *at = text.at + ALGORITHM_BYTES
    cdef const uint8_t *end = text.at + text.length
    cdef const uint8_t *mark
    cdef const uint8_t *value
    cdef bint has_key = False, has_signature = False
    if text.length <= ALGORITHM_BYTES or memcmp(text.at, ALGORITHM, ALGORITHM_BYTES) != 0:
        return False
    while at < end:
        if at[0] == c' ':
            at += 1
        mark = at
        while mark < end and mark[0] != c',':
            mark += 1
        value = at
        while value < mark and value[0] != c'=':
            if value[0] == c' ':
                return False
            value += 1
        if value == mark or value - at == 0:
            return False
        if value - at == 10 and memcmp(at, b"Credential", 10) == 0:
            if has_key or not read_key(value + 1, mark, &shown.access_key):
                return False
            has_key = True
        elif value - at == 9 and memcmp(at, b"Signature", 9) == 0:
            if has_signature or not read_hex(value + 1, mark, shown.signature):
                return False
            has_signature = True
        elif value - at != 13 or memcmp(at, b"SignedHeaders", 13) != 0:
            return False
        at = mark + 1
    return has_key and has_signature


cdef bint read_key(const uint8_t *at, const uint8_t *end, Text *key) noexcept nogil:
    """Read the account: what is before the first slash."""
    key.at = at
    while at < end and at[0] != c'/':
        if at[0] == c' ':
            return False
        at += 1
    key.length = at - key.at
    # Python cuts off blanks around the whole.
    return 0 < key.length <= ACCESS_KEY_BYTES_MAX


cdef bint read_hex(const uint8_t *at, const uint8_t *end, uint8_t *code) noexcept nogil:
    cdef int i, digit
    cdef uint8_t letter
    if end - at != 2 * PYROMQ_SHA1_DIGEST:
        return False
    for i in range(2 * PYROMQ_SHA1_DIGEST):
        letter = at[i]
        if c'0' <= letter <= c'9':
            digit = letter - c'0'
        elif c'a' <= letter | 0x20 <= c'f':
            digit = (letter | 0x20) - c'a' + 10
        else:
            return False
        if i % 2:
            code[i // 2] = <uint8_t> (code[i // 2] | digit)
        else:
            code[i // 2] = <uint8_t> (digit << 4)
    return True
