/* SHA-1 (FIPS 180-4) and HMAC with it (RFC 2104), for the signatures of requests, which RocketMQ has so.
 *
 * Two ways for the blocks of 64 bytes:
 *  - portable C;
 *  - on x86-64 the processor's own instructions (SHA-NI), where it has them: four rounds each.
 *
 * The pads of a key are hashed once and kept (`pyromq_hmac_key`), so a signature takes two blocks less. Neither way
 * has a branch or an address that depends on what is hashed.
 */
#ifndef PYROMQ_SHA1_H
#define PYROMQ_SHA1_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PYROMQ_SHA1_BLOCK 64
#define PYROMQ_SHA1_DIGEST 20

typedef struct {
    uint32_t state[5];
} pyromq_sha1_state;

/* The states behind the inner and the outer pad of a key. */
typedef struct {
    pyromq_sha1_state inner, outer;
} pyromq_hmac_pads;

/* A hash that goes on: `used` bytes of the block that is not whole yet, `length` bytes in all. */
typedef struct {
    pyromq_sha1_state now;
    uint8_t block[PYROMQ_SHA1_BLOCK];
    size_t used;
    uint64_t length;
} pyromq_sha1;

static const pyromq_sha1_state pyromq_sha1_begin = {{0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u}};

#define PYROMQ_ROTATE(x, n) ((x) << (n) | (x) >> (32 - (n)))
/* The word of a round from 16 on, kept in sixteen places in turns. */
#define PYROMQ_SHA1_W(t)                                                                                     \
    (w[(t) & 15] = PYROMQ_ROTATE(w[((t) + 13) & 15] ^ w[((t) + 8) & 15] ^ w[((t) + 2) & 15] ^ w[(t) & 15], 1))
#define PYROMQ_SHA1_CHOICE(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define PYROMQ_SHA1_PARITY(b, c, d) ((b) ^ (c) ^ (d))
#define PYROMQ_SHA1_MAJORITY(b, c, d) (((b) & (c)) | ((d) & ((b) | (c))))
/* One round; what the names a to e stand for moves on by itself. */
#define PYROMQ_SHA1_ROUND(a, b, c, d, e, f, k, word)                                                         \
    do {                                                                                                     \
        e += PYROMQ_ROTATE(a, 5) + f(b, c, d) + (k) + (word);                                                \
        b = PYROMQ_ROTATE(b, 30);                                                                            \
    } while (0)
#define PYROMQ_SHA1_FIVE(f, k, W, t)                                                                         \
    PYROMQ_SHA1_ROUND(a, b, c, d, e, f, k, W(t));                                                            \
    PYROMQ_SHA1_ROUND(e, a, b, c, d, f, k, W((t) + 1));                                                      \
    PYROMQ_SHA1_ROUND(d, e, a, b, c, f, k, W((t) + 2));                                                      \
    PYROMQ_SHA1_ROUND(c, d, e, a, b, f, k, W((t) + 3));                                                      \
    PYROMQ_SHA1_ROUND(b, c, d, e, a, f, k, W((t) + 4))
#define PYROMQ_SHA1_READ(t) (w[t])
#define PYROMQ_SHA1_EARLY(t) ((t) < 16 ? w[(t) & 15] : PYROMQ_SHA1_W(t))

/* Go on over `count` blocks. */
static inline void pyromq_sha1_by_words(pyromq_sha1_state *now, const uint8_t *data, size_t count) {
    uint32_t a = now->state[0], b = now->state[1], c = now->state[2], d = now->state[3], e = now->state[4];
    uint32_t w[16];
    int i;
    for (; count > 0; count--, data += PYROMQ_SHA1_BLOCK) {
        for (i = 0; i < 16; i++)
            w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 |
                   (uint32_t)data[4 * i + 2] << 8 | (uint32_t)data[4 * i + 3];
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_CHOICE, 0x5A827999u, PYROMQ_SHA1_READ, 0);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_CHOICE, 0x5A827999u, PYROMQ_SHA1_READ, 5);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_CHOICE, 0x5A827999u, PYROMQ_SHA1_READ, 10);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_CHOICE, 0x5A827999u, PYROMQ_SHA1_EARLY, 15);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0x6ED9EBA1u, PYROMQ_SHA1_W, 20);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0x6ED9EBA1u, PYROMQ_SHA1_W, 25);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0x6ED9EBA1u, PYROMQ_SHA1_W, 30);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0x6ED9EBA1u, PYROMQ_SHA1_W, 35);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_MAJORITY, 0x8F1BBCDCu, PYROMQ_SHA1_W, 40);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_MAJORITY, 0x8F1BBCDCu, PYROMQ_SHA1_W, 45);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_MAJORITY, 0x8F1BBCDCu, PYROMQ_SHA1_W, 50);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_MAJORITY, 0x8F1BBCDCu, PYROMQ_SHA1_W, 55);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0xCA62C1D6u, PYROMQ_SHA1_W, 60);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0xCA62C1D6u, PYROMQ_SHA1_W, 65);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0xCA62C1D6u, PYROMQ_SHA1_W, 70);
        PYROMQ_SHA1_FIVE(PYROMQ_SHA1_PARITY, 0xCA62C1D6u, PYROMQ_SHA1_W, 75);
        a = now->state[0] += a;
        b = now->state[1] += b;
        c = now->state[2] += c;
        d = now->state[3] += d;
        e = now->state[4] += e;
    }
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define PYROMQ_SHA1_INSTRUCTIONS 1
#include <cpuid.h>
#include <immintrin.h>

/* Whether the processor has SHA-NI. It is asked once: in a virtual machine the question takes microseconds. */
static inline int pyromq_sha1_is_in_processor(void) {
    static int known = -1;
    if (known < 0) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1 && __builtin_cpu_supports("ssse3") &&
                __builtin_cpu_supports("sse4.1");
    }
    return known;
}

/* Four rounds with the words in `w0`, the round's kind in `kind` and what is added to e in `own`. `other` becomes
 * the state that gives the next four their e. */
#define PYROMQ_SHA1_FOUR(own, other, w0, kind)                                                               \
    do {                                                                                                     \
        own = _mm_sha1nexte_epu32(own, w0);                                                                  \
        other = abcd;                                                                                        \
        abcd = _mm_sha1rnds4_epu32(abcd, own, kind);                                                         \
    } while (0)
/* Make the words of four rounds, sixteen behind those in `w0`. */
#define PYROMQ_SHA1_NEXT(w0, w1, w2, w3)                                                                     \
    (w0 = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2), w3))
/* Sixteen rounds whose words are made. */
#define PYROMQ_SHA1_SIXTEEN(kind_0, kind_1, kind_2, kind_3)                                                  \
    do {                                                                                                     \
        PYROMQ_SHA1_NEXT(m0, m1, m2, m3);                                                                    \
        PYROMQ_SHA1_FOUR(e0, e1, m0, kind_0);                                                                \
        PYROMQ_SHA1_NEXT(m1, m2, m3, m0);                                                                    \
        PYROMQ_SHA1_FOUR(e1, e0, m1, kind_1);                                                                \
        PYROMQ_SHA1_NEXT(m2, m3, m0, m1);                                                                    \
        PYROMQ_SHA1_FOUR(e0, e1, m2, kind_2);                                                                \
        PYROMQ_SHA1_NEXT(m3, m0, m1, m2);                                                                    \
        PYROMQ_SHA1_FOUR(e1, e0, m3, kind_3);                                                                \
    } while (0)
#define PYROMQ_SHA1_LOAD(at) _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(at)), reversed)

/* Go on over `count` blocks with the processor's instructions. */
__attribute__((target("sha,ssse3,sse4.1"))) static inline void
pyromq_sha1_by_instruction(pyromq_sha1_state *now, const uint8_t *data, size_t count) {
    const __m128i reversed = _mm_set_epi64x(0x0001020304050607, 0x08090A0B0C0D0E0F);
    /* The instructions have the first word in the highest place. */
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)now->state), 0x1B);
    __m128i e0 = _mm_set_epi32((int)now->state[4], 0, 0, 0), e1;
    __m128i m0, m1, m2, m3, abcd_before, e_before;
    for (; count > 0; count--, data += PYROMQ_SHA1_BLOCK) {
        abcd_before = abcd;
        e_before = e0;
        m0 = PYROMQ_SHA1_LOAD(data);
        m1 = PYROMQ_SHA1_LOAD(data + 16);
        m2 = PYROMQ_SHA1_LOAD(data + 32);
        m3 = PYROMQ_SHA1_LOAD(data + 48);
        /* The first four rounds have their e as it is, all others rotated out of the state before. */
        e0 = _mm_add_epi32(e0, m0);
        e1 = abcd;
        abcd = _mm_sha1rnds4_epu32(abcd, e0, 0);
        PYROMQ_SHA1_FOUR(e1, e0, m1, 0);
        PYROMQ_SHA1_FOUR(e0, e1, m2, 0);
        PYROMQ_SHA1_FOUR(e1, e0, m3, 0);
        PYROMQ_SHA1_SIXTEEN(0, 1, 1, 1);
        PYROMQ_SHA1_SIXTEEN(1, 1, 2, 2);
        PYROMQ_SHA1_SIXTEEN(2, 2, 2, 3);
        PYROMQ_SHA1_SIXTEEN(3, 3, 3, 3);
        e0 = _mm_sha1nexte_epu32(e0, e_before);
        abcd = _mm_add_epi32(abcd, abcd_before);
    }
    _mm_storeu_si128((__m128i *)now->state, _mm_shuffle_epi32(abcd, 0x1B));
    now->state[4] = (uint32_t)_mm_extract_epi32(e0, 3);
}
#else
static inline int pyromq_sha1_is_in_processor(void) { return 0; }
#endif

/* Go on over `count` blocks, `by_words` even where the processor has instructions for it. */
static inline void pyromq_sha1_blocks(pyromq_sha1_state *now, const uint8_t *data, size_t count, int by_words) {
#ifdef PYROMQ_SHA1_INSTRUCTIONS
    if (!by_words && pyromq_sha1_is_in_processor()) {
        pyromq_sha1_by_instruction(now, data, count);
        return;
    }
#endif
    (void)by_words;
    pyromq_sha1_by_words(now, data, count);
}

/* Begin behind `before` bytes, whole blocks, that led to a state. */
static inline void pyromq_sha1_start(pyromq_sha1 *hash, const pyromq_sha1_state *from, uint64_t before) {
    hash->now = *from;
    hash->used = 0;
    hash->length = before;
}

static inline void pyromq_sha1_add(pyromq_sha1 *hash, const uint8_t *data, size_t length, int by_words) {
    size_t part;
    if (length == 0) return;
    hash->length += length;
    if (hash->used) {
        part = PYROMQ_SHA1_BLOCK - hash->used;
        if (part > length) part = length;
        memcpy(hash->block + hash->used, data, part);
        hash->used += part;
        data += part;
        length -= part;
        if (hash->used < PYROMQ_SHA1_BLOCK) return;
        pyromq_sha1_blocks(&hash->now, hash->block, 1, by_words);
        hash->used = 0;
    }
    part = length / PYROMQ_SHA1_BLOCK;
    if (part) pyromq_sha1_blocks(&hash->now, data, part, by_words);
    data += part * PYROMQ_SHA1_BLOCK;
    length -= part * PYROMQ_SHA1_BLOCK;
    if (length) memcpy(hash->block, data, length);
    hash->used = length;
}

static inline void pyromq_sha1_end(pyromq_sha1 *hash, uint8_t *digest, int by_words) {
    uint64_t bits = hash->length << 3;
    int i;
    hash->block[hash->used++] = 0x80;
    if (hash->used > PYROMQ_SHA1_BLOCK - 8) {
        memset(hash->block + hash->used, 0, PYROMQ_SHA1_BLOCK - hash->used);
        pyromq_sha1_blocks(&hash->now, hash->block, 1, by_words);
        hash->used = 0;
    }
    memset(hash->block + hash->used, 0, PYROMQ_SHA1_BLOCK - 8 - hash->used);
    for (i = 0; i < 8; i++) hash->block[PYROMQ_SHA1_BLOCK - 1 - i] = (uint8_t)(bits >> 8 * i);
    pyromq_sha1_blocks(&hash->now, hash->block, 1, by_words);
    for (i = 0; i < PYROMQ_SHA1_DIGEST; i++) digest[i] = (uint8_t)(hash->now.state[i / 4] >> 8 * (3 - i % 4));
}

/* Overwrite memory, although nobody reads it again. */
static inline void pyromq_wipe(void *memory, size_t length) {
    volatile uint8_t *at = (volatile uint8_t *)memory;
    while (length--) *at++ = 0;
}

/* Hash the pads of a key, which may have any length. */
static inline void pyromq_hmac_key(pyromq_hmac_pads *pads, const uint8_t *key, size_t length, int by_words) {
    uint8_t pad[PYROMQ_SHA1_BLOCK];
    pyromq_sha1 hash;
    int i;
    memset(pad, 0, sizeof(pad));
    if (length > PYROMQ_SHA1_BLOCK) {
        pyromq_sha1_start(&hash, &pyromq_sha1_begin, 0);
        pyromq_sha1_add(&hash, key, length, by_words);
        pyromq_sha1_end(&hash, pad, by_words);
    } else if (length) {
        memcpy(pad, key, length);
    }
    for (i = 0; i < PYROMQ_SHA1_BLOCK; i++) pad[i] ^= 0x36;
    pads->inner = pads->outer = pyromq_sha1_begin;
    pyromq_sha1_blocks(&pads->inner, pad, 1, by_words);
    for (i = 0; i < PYROMQ_SHA1_BLOCK; i++) pad[i] ^= 0x36 ^ 0x5C;
    pyromq_sha1_blocks(&pads->outer, pad, 1, by_words);
    pyromq_wipe(pad, sizeof(pad));
    pyromq_wipe(&hash, sizeof(hash));
}

static inline void pyromq_hmac_start(pyromq_sha1 *hash, const pyromq_hmac_pads *pads) {
    pyromq_sha1_start(hash, &pads->inner, PYROMQ_SHA1_BLOCK);
}

static inline void pyromq_hmac_end(pyromq_sha1 *hash, const pyromq_hmac_pads *pads, uint8_t *code, int by_words) {
    uint8_t inner[PYROMQ_SHA1_DIGEST];
    pyromq_sha1_end(hash, inner, by_words);
    pyromq_sha1_start(hash, &pads->outer, PYROMQ_SHA1_BLOCK);
    pyromq_sha1_add(hash, inner, sizeof(inner), by_words);
    pyromq_sha1_end(hash, code, by_words);
}

#endif
