/* The characters of a JSON string, sixteen at a time where the CPU can compare so many. All x86-64 can. */
#ifndef PYROMQ_JSON_TEXT_H
#define PYROMQ_JSON_TEXT_H

#include <stdint.h>

#if defined(__SSE2__) && (defined(__GNUC__) || defined(__clang__))
#define PYROMQ_TEXT_BY_SIXTEEN 1
#include <emmintrin.h>

#define PYROMQ_SIXTEEN(at) _mm_loadu_si128((const __m128i *)(at))
#define PYROMQ_ARE(bytes, letter) _mm_cmpeq_epi8(bytes, _mm_set1_epi8(letter))
#endif

/* How many bytes `pyromq_copy_plain` may write behind those that it copies. */
#define PYROMQ_COPY_BEYOND 15

/* Return the first byte that is a quote, a backslash or not printable ASCII, `end` where none is. */
static inline const uint8_t *pyromq_skip_plain(const uint8_t *at, const uint8_t *end) {
#ifdef PYROMQ_TEXT_BY_SIXTEEN
    for (; end - at >= 16; at += 16) {
        __m128i bytes = PYROMQ_SIXTEEN(at);
        /* Bytes from 0x80 on are negative here, and so less than a space too. */
        __m128i strange = _mm_or_si128(_mm_or_si128(PYROMQ_ARE(bytes, '"'), PYROMQ_ARE(bytes, '\\')),
                                       _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')));
        int found = _mm_movemask_epi8(strange);
        if (found) return at + __builtin_ctz((unsigned)found);
    }
#endif
    while (at < end && *at != '"' && *at != '\\' && *at >= ' ' && *at < 0x80) at++;
    return at;
}

/* Copy what stands before the first backslash, or all, and return where that is. There must be room for
 * PYROMQ_COPY_BEYOND bytes more. */
static inline const uint8_t *pyromq_copy_plain(uint8_t *out, const uint8_t *at, const uint8_t *end) {
#ifdef PYROMQ_TEXT_BY_SIXTEEN
    for (; end - at >= 16; at += 16, out += 16) {
        __m128i bytes = PYROMQ_SIXTEEN(at);
        int found = _mm_movemask_epi8(PYROMQ_ARE(bytes, '\\'));
        _mm_storeu_si128((__m128i *)out, bytes);
        if (found) return at + __builtin_ctz((unsigned)found);
    }
#endif
    while (at < end && *at != '\\') *out++ = *at++;
    return at;
}

#endif
