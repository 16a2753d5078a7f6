"""Encoder of Spark's rows: Arrow's columns become the messages of a batch, without a Python object for a row.

`pyspark_rocketmq.sink.units` is the same in Python, and says what a row becomes. Only plain rows are encoded here.
At the first row without a body, with a separator in a text, with two delivery times, or with more properties than
fit, the encoder stops, and Python encodes that row or refuses it.

    message   size 4 │ 0 │ 0 │ 0 │ body 4+n │ properties 2+n        as in `pyromq.wire.batch`
"""

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from pyromq._kernel.codec.bigend cimport java_hash, store16, store32, write_decimal
from pyromq._kernel.codec.layout cimport Text

cdef enum:
    PROPERTIES_BYTES_MAX = 0x7FFF
    #: Size, magic, checksum, flag and the body's length; then the length of the properties.
    UNIT_HEAD_BYTES = 20
    UNIT_BYTES_MIN = 22
    #: Names, separators, an id and a number: what the properties of a row have beside the texts of its columns.
    NAMES_BYTES_MAX = 256
    #: A row that may take more is left to Python.
    ROW_BYTES_MAX = 0x4000000
    ID_HEAD_BYTES = 16
    #: Names that RocketMQ keeps for itself, of which there are some forty.
    LEFT_OUT_MAX = 64

cdef const char *HEX = b"0123456789ABCDEF"


# Columns


cdef inline object octets(buffer):
    """Arrow's buffers are of signed bytes."""
    return memoryview(buffer).cast("B")


cdef class _Column:
    """The buffers of an Arrow array, and which rows are valid."""

    cdef const uint8_t[::1] valid
    #: The array's first row in its buffers.
    cdef Py_ssize_t first, rows
    cdef bint has_valid

    cdef void take(self, array, valid) except *:
        self.first = array.offset
        self.rows = len(array)
        if self.first < 0:
            raise ValueError("an array begins before its buffers")
        # Arrow may keep bits of which none is 0.
        self.has_valid = valid is not None
        if self.has_valid:
            self.valid = octets(valid)
            if self.valid.shape[0] * 8 < self.first + self.rows:
                raise ValueError("an array has fewer validity bits than rows")

    cdef inline bint has(self, Py_ssize_t row) noexcept:
        cdef Py_ssize_t bit = self.first + row
        return not self.has_valid or (self.valid[bit >> 3] >> (bit & 7)) & 1


cdef class _Offsets(_Column):
    """The offsets at which each row begins and ends: of a column of lists, or of texts."""

    cdef const uint8_t[::1] offset_bytes
    cdef const int32_t *offsets

    cdef void take_offsets(self, array, valid, offsets, Py_ssize_t end) except *:
        cdef Py_ssize_t row
        self.take(array, valid)
        if self.rows == 0:
            return
        self.offset_bytes = octets(offsets)
        if self.offset_bytes.shape[0] < 4 * (self.first + self.rows + 1):
            raise ValueError("an array has fewer offsets than rows")
        self.offsets = (<const int32_t *> &self.offset_bytes[0]) + self.first
        if self.offsets[0] < 0 or self.offsets[self.rows] > end:
            raise ValueError("an array's offsets are outside its data")
        for row in range(self.rows):
            if self.offsets[row] > self.offsets[row + 1]:
                raise ValueError("an array's offsets go back")


cdef class _Texts(_Offsets):
    """A column of texts or bytes."""

    cdef const uint8_t[::1] held
    cdef const uint8_t *data

    def __init__(self, array):
        valid, offsets, data = array.buffers()
        if data is not None and len(data):
            self.held = octets(data)
            self.data = &self.held[0]
        self.take_offsets(array, valid, offsets, 0 if data is None else len(data))

    cdef inline bint find(self, Py_ssize_t row, Text *text) noexcept:
        """Return whether a row has a text that is not empty."""
        if not self.has(row):
            return False
        text.at = self.data + self.offsets[row]
        text.length = self.offsets[row + 1] - self.offsets[row]
        return text.length > 0


cdef class _Numbers(_Column):
    """A column of int64."""

    cdef const uint8_t[::1] held
    cdef const int64_t *numbers

    def __init__(self, array):
        valid, data = array.buffers()
        self.take(array, valid)
        if self.rows:
            self.held = octets(data)
            if self.held.shape[0] < 8 * (self.first + self.rows):
                raise ValueError("an array has fewer numbers than rows")
            self.numbers = (<const int64_t *> &self.held[0]) + self.first


cdef class _Pairs(_Offsets):
    """A column of maps."""

    cdef _Texts names, values

    def __init__(self, array):
        self.names, self.values = _Texts(array.keys), _Texts(array.items)
        buffers = array.buffers()
        self.take_offsets(array, buffers[0], buffers[1], min(self.names.rows, self.values.rows))


cdef inline int64_t text_bytes(_Texts column, Py_ssize_t row) noexcept:
    return 0 if column is None else column.offsets[row + 1] - column.offsets[row]


cdef inline _Texts texts_or_none(array):
    return None if array is None else _Texts(array)


cdef inline _Numbers numbers_or_none(array):
    return None if array is None else _Numbers(array)


# Rows


cdef class Units:
    """The rows of one Arrow batch, to be encoded in any order and in any portions.

    `columns` has arrays by name, or None: body, tags, keys, message_group, msg_id (binary), properties (a map
    of binary to binary), deliver_at, delay_ms, delay_level (int64). `id_head` are the first 16 characters of
    the ids, `first_row` the number of the first row. `left_out` are names of properties that are not taken
    over from the map.
    """

    cdef readonly Py_ssize_t count
    cdef _Texts body, tags, keys, group, ids
    cdef _Pairs properties
    cdef _Numbers deliver_at, delay_ms, delay_level
    cdef int64_t first_row
    cdef uint8_t id_head[ID_HEAD_BYTES]
    cdef tuple left_out
    #: By a name's first byte, which lengths of names are left out: most names are not looked up.
    cdef uint32_t lengths[256]
    cdef uint8_t *made
    cdef Py_ssize_t room

    def __init__(self, columns, bytes id_head not None, int64_t first_row, tuple left_out not None):
        cdef bytes name
        if PyBytes_GET_SIZE(id_head) != ID_HEAD_BYTES or first_row < 0 or len(left_out) > LEFT_OUT_MAX:
            raise ValueError("the head of an id has 16 characters, and rows count from 0")
        memcpy(self.id_head, PyBytes_AS_STRING(id_head), ID_HEAD_BYTES)
        self.first_row = first_row
        self.body = _Texts(columns.body)
        self.count = self.body.rows
        self.tags = texts_or_none(columns.tags)
        self.keys = texts_or_none(columns.keys)
        self.group = texts_or_none(columns.message_group)
        self.ids = texts_or_none(columns.msg_id)
        self.properties = None if columns.properties is None else _Pairs(columns.properties)
        self.deliver_at = numbers_or_none(columns.deliver_at)
        self.delay_ms = numbers_or_none(columns.delay_ms)
        self.delay_level = numbers_or_none(columns.delay_level)
        for column in (
            self.tags, self.keys, self.group, self.ids, self.properties,
            self.deliver_at, self.delay_ms, self.delay_level,
        ):
            if column is not None and (<_Column> column).rows != self.count:
                raise ValueError("columns differ in length")
        memset(self.lengths, 0, sizeof(self.lengths))
        self.left_out = left_out
        for name in left_out:
            if not 0 < len(name) < 32:
                raise ValueError(f"{name!r} cannot be left out: names have 1 to 31 bytes")
            self.lengths[<uint8_t> PyBytes_AS_STRING(name)[0]] |= (<uint32_t> 1) << len(name)

    def __dealloc__(self):
        PyMem_Free(self.made)

    def encode(self, const int32_t[::1] rows, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t bytes_max):
        """Encode rows, those that `rows` lists (None: all, in their order) from `start` up to `stop`.

        Return the bytes, at most `bytes_max`, and the place in the list of the first row that did not fit,
        or is not plain.
        """
        cdef Py_ssize_t at = start, row, used = 0
        cdef int64_t size
        if not 0 <= start <= stop <= (self.count if rows is None else rows.shape[0]):
            raise IndexError("there are not so many rows")
        while at < stop:
            row = at if rows is None else rows[at]
            if not 0 <= row < self.count:
                raise IndexError(f"there is no row {row}")
            size = self.most_bytes(row)
            if size > ROW_BYTES_MAX or used + self.body.offsets[row + 1] - self.body.offsets[row] > bytes_max:
                break
            self.reserve(used + size)
            size = self.write(row, self.made + used)
            if size < 0 or used + size > bytes_max:
                break
            used += size
            at += 1
        return PyBytes_FromStringAndSize(<char *> self.made, used) if used else b"", at

    cdef int reserve(self, Py_ssize_t size) except -1:
        cdef uint8_t *made
        if size > self.room:
            size += size >> 1
            made = <uint8_t *> PyMem_Realloc(self.made, size)
            if made == NULL:
                raise MemoryError
            self.made, self.room = made, size
        return 0

    cdef int64_t most_bytes(self, Py_ssize_t row) noexcept:
        """Return a number of bytes that a row does not exceed."""
        cdef int64_t most = UNIT_BYTES_MIN + NAMES_BYTES_MAX
        cdef Py_ssize_t first, end
        cdef _Texts texts
        most += self.body.offsets[row + 1] - self.body.offsets[row]
        most += text_bytes(self.tags, row) + text_bytes(self.keys, row)
        most += text_bytes(self.group, row) + text_bytes(self.ids, row)
        if self.properties is not None:
            first, end = self.properties.offsets[row], self.properties.offsets[row + 1]
            if first < end:
                texts = self.properties.names
                most += texts.offsets[end] - texts.offsets[first]
                texts = self.properties.values
                most += texts.offsets[end] - texts.offsets[first] + 2 * (end - first)
        return most

    cdef int64_t write(self, Py_ssize_t row, uint8_t *out) noexcept:
        """Write a row; return how many bytes it took, -1 when it is not plain."""
        cdef Text body, text
        cdef uint8_t *begin
        cdef uint8_t *at
        cdef bint has_tags, has_keys, has_group
        cdef int64_t length
        if not self.body.find(row, &body):
            return -1
        memset(out + 4, 0, 12)
        store32(out + 16, <int32_t> body.length)
        memcpy(out + UNIT_HEAD_BYTES, body.at, body.length)
        begin = out + UNIT_BYTES_MIN + body.length
        at = self.write_id(row, begin)
        if at == NULL:
            return -1
        has_tags = self.tags is not None and self.tags.find(row, &text)
        if has_tags:
            at = write_pair(at, b"TAGS", 4, text)
        has_keys = self.keys is not None and self.keys.find(row, &text)
        if has_keys and at != NULL:
            at = write_pair(at, b"KEYS", 4, text)
        has_group = self.group is not None and self.group.find(row, &text)
        if has_group and at != NULL:
            at = write_pair(at, b"__SHARDINGKEY", 13, text)
        if at != NULL:
            at = self.write_time(row, at)
        if at != NULL and self.properties is not None and self.properties.has(row):
            at = self.write_map(row, at, has_tags, has_keys, has_group)
        if at == NULL:
            return -1
        # Nothing separates the last pair from the end.
        length = at - 1 - begin
        if length > PROPERTIES_BYTES_MAX:
            return -1
        store16(begin - 2, <short> length)
        length += UNIT_BYTES_MIN + body.length
        store32(out, <int32_t> length)
        return length

    cdef uint8_t *write_id(self, Py_ssize_t row, uint8_t *at) noexcept:
        cdef Text text
        cdef int64_t number = self.first_row + row
        cdef int digit
        if self.ids is not None and self.ids.find(row, &text):
            return write_pair(at, b"UNIQ_KEY", 8, text)
        if number > 0xFFFFFFFF:
            return NULL
        memcpy(at, b"UNIQ_KEY\x01", 9)
        at += 9
        memcpy(at, self.id_head, ID_HEAD_BYTES)
        at += ID_HEAD_BYTES
        memset(at + 4, c"0", 8)
        for digit in range(4):
            at[digit] = HEX[(number >> (28 - 4 * digit)) & 15]
            at[12 + digit] = HEX[(number >> (12 - 4 * digit)) & 15]
        at[16] = 2
        return at + 17

    cdef uint8_t *write_time(self, Py_ssize_t row, uint8_t *at) noexcept:
        """Write when a row is to be delivered; NULL when it says so twice, or a time that is none."""
        cdef int times = 0
        cdef int64_t number
        if self.deliver_at is not None and self.deliver_at.has(row):
            number = self.deliver_at.numbers[row]
            times += 1
            if number < 0:
                return NULL
            at = write_number(at, b"TIMER_DELIVER_MS", 16, number)
        if self.delay_ms is not None and self.delay_ms.has(row) and self.delay_ms.numbers[row] != 0:
            number = self.delay_ms.numbers[row]
            times += 1
            if number < 0:
                return NULL
            at = write_number(at, b"TIMER_DELAY_MS", 14, number)
        if self.delay_level is not None and self.delay_level.has(row) and self.delay_level.numbers[row] != 0:
            number = self.delay_level.numbers[row]
            times += 1
            if number < 0:
                return NULL
            at = write_number(at, b"DELAY", 5, number)
        return at if times <= 1 else NULL

    cdef uint8_t *write_map(
        self, Py_ssize_t row, uint8_t *at, bint has_tags, bint has_keys, bint has_group
    ) noexcept:
        cdef Text name, value
        cdef Py_ssize_t pair
        for pair in range(self.properties.offsets[row], self.properties.offsets[row + 1]):
            if not self.properties.names.find(pair, &name) or not self.properties.values.find(pair, &value):
                continue
            if self.is_left_out(name):
                continue
            if (
                (has_tags and is_name(name, b"TAGS", 4))
                or (has_keys and is_name(name, b"KEYS", 4))
                or (has_group and is_name(name, b"__SHARDINGKEY", 13))
            ):
                continue
            if has_mark(name):
                return NULL
            at = write_pair(at, <const char *> name.at, name.length, value)
            if at == NULL:
                return NULL
        return at

    cdef bint is_left_out(self, Text name) noexcept:
        cdef bytes one
        if name.length > 31 or not (self.lengths[name.at[0]] >> name.length) & 1:
            return False
        for one in self.left_out:
            if PyBytes_GET_SIZE(one) == name.length and memcmp(PyBytes_AS_STRING(one), name.at, name.length) == 0:
                return True
        return False


cdef inline bint is_name(Text name, const char *wanted, Py_ssize_t length) noexcept:
    return name.length == length and memcmp(name.at, wanted, length) == 0


cdef inline bint has_mark(Text text) noexcept:
    """Whether one of the two separators is in a text."""
    cdef Py_ssize_t at
    cdef uint8_t found = 0
    for at in range(text.length):
        found |= <uint8_t> (text.at[at] - 1) < 2
    return found


cdef inline uint8_t *write_pair(uint8_t *at, const char *name, Py_ssize_t length, Text value) noexcept:
    if has_mark(value):
        return NULL
    memcpy(at, name, length)
    at[length] = 1
    at += length + 1
    memcpy(at, value.at, value.length)
    at[value.length] = 2
    return at + value.length + 1


cdef inline uint8_t *write_number(uint8_t *at, const char *name, Py_ssize_t length, int64_t number) noexcept:
    memcpy(at, name, length)
    at[length] = 1
    at = write_decimal(at + length + 1, number)
    at[0] = 2
    return at + 1


# Groups


def group_queues(array, Py_ssize_t queue_count):
    """Return, as int32, which of so many queues each row's text belongs to, by Java's hash of strings.

    -1 for a row without a text, -2 for one that is not ASCII and is left to Python.
    """
    cdef _Texts texts = _Texts(array)
    cdef bytearray made = bytearray(4 * texts.rows)
    cdef int32_t *out = <int32_t *> PyByteArray_AS_STRING(made)
    cdef Py_ssize_t row, at
    cdef Text text
    cdef uint8_t seen
    cdef int64_t number
    if queue_count <= 0:
        raise ValueError("there is no queue")
    for row in range(texts.rows):
        if not texts.find(row, &text):
            out[row] = -1
            continue
        seen = 0
        for at in range(text.length):
            seen |= text.at[at]
        if seen & 0x80:
            out[row] = -2
            continue
        number = <int32_t> java_hash(0, text.at, text.length)
        out[row] = <int32_t> ((number if number >= 0 else -number) % queue_count)
    return made
