"""Signatures with a kept key: HMAC-SHA1 in base64. `pyromq.wire.signing_key` is the same in Python."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef class SigningKey:
    """A secret key, of which only the states behind its pads are kept; they are wiped when it goes.

    `by_words` leaves the processor's own instructions out, for tests.
    """

    def __cinit__(self, bytes secret not None, bint by_words=False):
        self._by_words = by_words
        pyromq_hmac_key(
            &self._pads, <const uint8_t *> PyBytes_AS_STRING(secret), PyBytes_GET_SIZE(secret), by_words
        )

    def __dealloc__(self):
        pyromq_wipe(&self._pads, sizeof(self._pads))

    def signature(self, bytes text not None, bytes body not None):
        """Return the signature of a text with a body behind it."""
        cdef uint8_t signature[SIGNATURE_CHARACTERS]
        self.sign(
            <const uint8_t *> PyBytes_AS_STRING(text),
            PyBytes_GET_SIZE(text),
            <const uint8_t *> PyBytes_AS_STRING(body),
            PyBytes_GET_SIZE(body),
            signature,
        )
        return PyBytes_FromStringAndSize(<char *> signature, SIGNATURE_CHARACTERS).decode("ascii")

    cdef void sign(
        self,
        const uint8_t *text,
        Py_ssize_t text_length,
        const uint8_t *body,
        Py_ssize_t body_length,
        uint8_t *signature,
    ) noexcept nogil:
        """Write the 28 characters of a signature."""
        cdef pyromq_sha1 hash
        # One byte more, which counts as zero: the last group of three is not whole.
        cdef uint8_t code[PYROMQ_SHA1_DIGEST + 1]
        cdef uint32_t group
        cdef int i
        pyromq_hmac_start(&hash, &self._pads)
        pyromq_sha1_add(&hash, text, text_length, self._by_words)
        pyromq_sha1_add(&hash, body, body_length, self._by_words)
        pyromq_hmac_end(&hash, &self._pads, code, self._by_words)
        code[PYROMQ_SHA1_DIGEST] = 0
        for i in range(0, 7):
            group = <uint32_t> code[3 * i] << 16 | <uint32_t> code[3 * i + 1] << 8 | code[3 * i + 2]
            signature[4 * i] = BASE64[group >> 18]
            signature[4 * i + 1] = BASE64[(group >> 12) & 63]
            signature[4 * i + 2] = BASE64[(group >> 6) & 63]
            signature[4 * i + 3] = BASE64[group & 63]
        signature[SIGNATURE_CHARACTERS - 1] = c'='

    cdef void code(self, const uint8_t *text, Py_ssize_t length, uint8_t *code) noexcept nogil:
        """Write the 20 bytes of a text's authentication code."""
        cdef pyromq_sha1 hash
        pyromq_hmac_start(&hash, &self._pads)
        pyromq_sha1_add(&hash, text, length, self._by_words)
        pyromq_hmac_end(&hash, &self._pads, code, self._by_words)


def sha1(data, *, bint by_words=False):
    """Return the SHA-1 digest of bytes; `by_words` leaves the processor's own instructions out."""
    cdef Py_buffer view
    cdef pyromq_sha1 hash
    cdef uint8_t digest[PYROMQ_SHA1_DIGEST]
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    pyromq_sha1_start(&hash, &pyromq_sha1_begin, 0)
    pyromq_sha1_add(&hash, <const uint8_t *> view.buf, view.len, by_words)
    pyromq_sha1_end(&hash, digest, by_words)
    PyBuffer_Release(&view)
    return PyBytes_FromStringAndSize(<char *> digest, PYROMQ_SHA1_DIGEST)


def is_in_processor():
    """Return whether the processor has instructions for SHA-1."""
    return pyromq_sha1_is_in_processor()
