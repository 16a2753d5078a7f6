"""SHA-1 and HMAC with it, for the kernel's modules."""

from libc.stdint cimport uint8_t, uint64_t


cdef extern from "sha1.h" nogil:
    enum:
        PYROMQ_SHA1_DIGEST

    ctypedef struct pyromq_sha1_state:
        pass

    ctypedef struct pyromq_sha1:
        pass

    ctypedef struct pyromq_hmac_pads:
        pass

    const pyromq_sha1_state pyromq_sha1_begin
    bint pyromq_sha1_is_in_processor()
    void pyromq_sha1_start(pyromq_sha1 *hash, const pyromq_sha1_state *begin, uint64_t before)
    void pyromq_sha1_add(pyromq_sha1 *hash, const uint8_t *data, size_t length, bint by_words)
    void pyromq_sha1_end(pyromq_sha1 *hash, uint8_t *digest, bint by_words)
    void pyromq_hmac_key(pyromq_hmac_pads *pads, const uint8_t *key, size_t length, bint by_words)
    void pyromq_hmac_start(pyromq_sha1 *hash, const pyromq_hmac_pads *pads)
    void pyromq_hmac_end(pyromq_sha1 *hash, const pyromq_hmac_pads *pads, uint8_t *code, bint by_words)
    void pyromq_wipe(void *memory, size_t length)


cdef enum:
    #: Of a signature: the 20 bytes of the code in base64.
    SIGNATURE_CHARACTERS = 28


cdef class SigningKey:
    cdef pyromq_hmac_pads _pads
    cdef bint _by_words

    cdef void sign(
        self,
        const uint8_t *text,
        Py_ssize_t text_length,
        const uint8_t *body,
        Py_ssize_t body_length,
        uint8_t *signature,
    ) noexcept nogil
    cdef void code(self, const uint8_t *text, Py_ssize_t length, uint8_t *code) noexcept nogil
