/* CRC-32 as zlib.crc32 computes it, several times faster than the system's zlib where the CPU can multiply
 * polynomials, and without needing it anywhere.
 *
 * The polynomial is P(x) = x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 + x^5 + x^4 + x^2
 * + x + 1, bits reflected (the lowest bit of a byte comes first), start value and result inverted.
 *
 * Three ways:
 *  - tables, eight bytes a step ("slicing by 8");
 *  - on x86-64, folding with carry-less multiplication (PCLMULQDQ), for 64 bytes and more, as in V. Gopal and
 *    others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009;
 *  - on AArch64 compiled for a CPU that has them, the CRC32 instructions.
 */
#ifndef PYROMQ_CRC32_H
#define PYROMQ_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The tables, as constant expressions. table[k][n] is the remainder of byte n with k zero bytes behind it. A
 * remainder is linear in the bits of n, so each table follows from its eight entries for n = 1, 2, 4 ... 128,
 * which stand below. */
#define PYROMQ_CRC_N(n, a, b, c, d, e, f, g, h)                                                              \
    (((n) & 1 ? a : 0u) ^ ((n) & 2 ? b : 0u) ^ ((n) & 4 ? c : 0u) ^ ((n) & 8 ? d : 0u) ^                     \
     ((n) & 16 ? e : 0u) ^ ((n) & 32 ? f : 0u) ^ ((n) & 64 ? g : 0u) ^ ((n) & 128 ? h : 0u))
#define PYROMQ_CRC_4(n, ...)                                                                                 \
    PYROMQ_CRC_N((n), __VA_ARGS__), PYROMQ_CRC_N((n) + 1, __VA_ARGS__), PYROMQ_CRC_N((n) + 2, __VA_ARGS__), \
        PYROMQ_CRC_N((n) + 3, __VA_ARGS__)
#define PYROMQ_CRC_16(n, ...)                                                                                \
    PYROMQ_CRC_4((n), __VA_ARGS__), PYROMQ_CRC_4((n) + 4, __VA_ARGS__), PYROMQ_CRC_4((n) + 8, __VA_ARGS__), \
        PYROMQ_CRC_4((n) + 12, __VA_ARGS__)
#define PYROMQ_CRC_64(n, ...)                                                                                \
    PYROMQ_CRC_16((n), __VA_ARGS__), PYROMQ_CRC_16((n) + 16, __VA_ARGS__),                                   \
        PYROMQ_CRC_16((n) + 32, __VA_ARGS__), PYROMQ_CRC_16((n) + 48, __VA_ARGS__)
#define PYROMQ_CRC_TABLE(...)                                                                                \
    {PYROMQ_CRC_64(0, __VA_ARGS__), PYROMQ_CRC_64(64, __VA_ARGS__), PYROMQ_CRC_64(128, __VA_ARGS__),         \
     PYROMQ_CRC_64(192, __VA_ARGS__)}

static const uint32_t pyromq_crc_tables[8][256] = {
    PYROMQ_CRC_TABLE(0x77073096u, 0xee0e612cu, 0x076dc419u, 0x0edb8832u, 0x1db71064u, 0x3b6e20c8u, 0x76dc4190u,
                     0xedb88320u),
    PYROMQ_CRC_TABLE(0x191b3141u, 0x32366282u, 0x646cc504u, 0xc8d98a08u, 0x4ac21251u, 0x958424a2u, 0xf0794f05u,
                     0x3b83984bu),
    PYROMQ_CRC_TABLE(0x01c26a37u, 0x0384d46eu, 0x0709a8dcu, 0x0e1351b8u, 0x1c26a370u, 0x384d46e0u, 0x709a8dc0u,
                     0xe1351b80u),
    PYROMQ_CRC_TABLE(0xb8bc6765u, 0xaa09c88bu, 0x8f629757u, 0xc5b428efu, 0x5019579fu, 0xa032af3eu, 0x9b14583du,
                     0xed59b63bu),
    PYROMQ_CRC_TABLE(0x3d6029b0u, 0x7ac05360u, 0xf580a6c0u, 0x30704bc1u, 0x60e09782u, 0xc1c12f04u, 0x58f35849u,
                     0xb1e6b092u),
    PYROMQ_CRC_TABLE(0xcb5cd3a5u, 0x4dc8a10bu, 0x9b914216u, 0xec53826du, 0x03d6029bu, 0x07ac0536u, 0x0f580a6cu,
                     0x1eb014d8u),
    PYROMQ_CRC_TABLE(0xa6770bb4u, 0x979f1129u, 0xf44f2413u, 0x33ef4e67u, 0x67de9cceu, 0xcfbd399cu, 0x440b7579u,
                     0x8816eaf2u),
    PYROMQ_CRC_TABLE(0xccaa009eu, 0x4225077du, 0x844a0efau, 0xd3e51bb5u, 0x7cbb312bu, 0xf9766256u, 0x299dc2edu,
                     0x533b85dau),
};

/* Go on with an inverted sum over any number of bytes. */
static inline uint32_t pyromq_crc32_by_tables(uint32_t crc, const uint8_t *data, size_t length) {
    const uint32_t(*table)[256] = pyromq_crc_tables;
    for (; length >= 8; data += 8, length -= 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24] ^
              table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^ table[0][data[7]];
    }
    for (; length > 0; data++, length--) crc = table[0][(crc ^ *data) & 255] ^ crc >> 8;
    return crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define PYROMQ_CRC_FOLDS 1
#include <immintrin.h>

/* Move 128 bits `a` forward by the distance that `k` stands for, and add what stands there. */
#define PYROMQ_FOLD(a, k, next)                                                                              \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11)), next)
#define PYROMQ_LOAD(at) _mm_loadu_si128((const __m128i *)(at))

/* Go on with an inverted sum over at least 64 bytes, a multiple of 16.
 *
 * Each constant is x^n mod P, its 32 bits reflected and moved up by one, because the product of two reflected
 * numbers comes out one bit too low. To move by d bits takes n = d + 32 for the lower and d - 32 for the upper
 * half of 128 bits. */
__attribute__((target("pclmul,sse4.1"))) static inline uint32_t pyromq_crc32_by_folding(uint32_t crc,
                                                                                         const uint8_t *data,
                                                                                         size_t length) {
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4); /* n = 480, 544 */
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0); /* n = 96, 160 */
    const __m128i by_64 = _mm_set_epi64x(0, 0x163cd6124);            /* n = 64 */
    const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641); /* x^64 div P, and P, 33 bits reflected */
    const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i a = _mm_xor_si128(PYROMQ_LOAD(data), _mm_cvtsi32_si128((int)crc));
    __m128i b = PYROMQ_LOAD(data + 16), c = PYROMQ_LOAD(data + 32), d = PYROMQ_LOAD(data + 48);
    __m128i product;
    for (data += 64, length -= 64; length >= 64; data += 64, length -= 64) {
        a = PYROMQ_FOLD(a, by_512, PYROMQ_LOAD(data));
        b = PYROMQ_FOLD(b, by_512, PYROMQ_LOAD(data + 16));
        c = PYROMQ_FOLD(c, by_512, PYROMQ_LOAD(data + 32));
        d = PYROMQ_FOLD(d, by_512, PYROMQ_LOAD(data + 48));
    }
    a = PYROMQ_FOLD(a, by_128, b);
    a = PYROMQ_FOLD(a, by_128, c);
    a = PYROMQ_FOLD(a, by_128, d);
    for (; length >= 16; data += 16, length -= 16) a = PYROMQ_FOLD(a, by_128, PYROMQ_LOAD(data));
    /* 128 bits to 96, to 64. */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low_words), by_64, 0x00));
    /* Barrett's reduction: 64 bits to the 32 of the remainder. */
    product = _mm_clmulepi64_si128(_mm_and_si128(a, low_words), barrett, 0x10);
    product = _mm_clmulepi64_si128(_mm_and_si128(product, low_words), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, product), 1);
}
#endif

#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

static inline uint32_t pyromq_crc32_by_instruction(uint32_t crc, const uint8_t *data, size_t length) {
    uint64_t word;
    for (; length >= 8; data += 8, length -= 8) {
        memcpy(&word, data, 8);
        crc = __crc32d(crc, word);
    }
    for (; length > 0; data++, length--) crc = __crc32b(crc, *data);
    return crc;
}
#endif

/* Return the CRC-32 of what `crc` is the CRC-32 of (0: of nothing) with `length` bytes behind it. */
static inline uint32_t pyromq_crc32(uint32_t crc, const uint8_t *data, size_t length) {
    crc = ~crc;
#ifdef PYROMQ_CRC_FOLDS
    if (length >= 64 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
        size_t folded = length & ~(size_t)15;
        crc = pyromq_crc32_by_folding(crc, data, folded);
        data += folded;
        length -= folded;
    }
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    return ~pyromq_crc32_by_instruction(crc, data, length);
#endif
    return ~pyromq_crc32_by_tables(crc, data, length);
}

#endif
