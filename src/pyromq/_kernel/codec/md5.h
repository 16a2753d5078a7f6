/* MD5 (RFC 1321) of a whole text, for the digests of bodies. It guards against nothing but mistakes. */

#ifndef PYROMQ_MD5_H
#define PYROMQ_MD5_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PYROMQ_MD5_DIGEST 16
#define PYROMQ_MD5_BLOCK 64

#define PYROMQ_MD5_TURN(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define PYROMQ_MD5_F(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
/* A sum, and not an or: its first part does not wait for the word before. */
#define PYROMQ_MD5_G(b, c, d) (((b) & (d)) + ((c) & ~(d)))
#define PYROMQ_MD5_H_(b, c, d) ((b) ^ (c) ^ (d))
#define PYROMQ_MD5_I(b, c, d) ((c) ^ ((b) | ~(d)))
#define PYROMQ_MD5_STEP(f, a, b, c, d, word, add, n)                                                                   \
    a += (word) + (uint32_t) (add);                                                                                    \
    a += f(b, c, d);                                                                                                   \
    a = PYROMQ_MD5_TURN(a, n) + (b);

/* The 64 steps over one block; the words are numbers, or lanes of numbers. */
#define PYROMQ_MD5_ROUNDS(a, b, c, d, w)                                                                               \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, a, b, c, d, w[0], 0xd76aa478, 7)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, d, a, b, c, w[1], 0xe8c7b756, 12)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, c, d, a, b, w[2], 0x242070db, 17)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, b, c, d, a, w[3], 0xc1bdceee, 22)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, a, b, c, d, w[4], 0xf57c0faf, 7)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, d, a, b, c, w[5], 0x4787c62a, 12)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, c, d, a, b, w[6], 0xa8304613, 17)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, b, c, d, a, w[7], 0xfd469501, 22)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, a, b, c, d, w[8], 0x698098d8, 7)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, d, a, b, c, w[9], 0x8b44f7af, 12)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, c, d, a, b, w[10], 0xffff5bb1, 17)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, b, c, d, a, w[11], 0x895cd7be, 22)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, a, b, c, d, w[12], 0x6b901122, 7)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, d, a, b, c, w[13], 0xfd987193, 12)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, c, d, a, b, w[14], 0xa679438e, 17)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_F, b, c, d, a, w[15], 0x49b40821, 22)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, a, b, c, d, w[1], 0xf61e2562, 5)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, d, a, b, c, w[6], 0xc040b340, 9)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, c, d, a, b, w[11], 0x265e5a51, 14)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, b, c, d, a, w[0], 0xe9b6c7aa, 20)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, a, b, c, d, w[5], 0xd62f105d, 5)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, d, a, b, c, w[10], 0x02441453, 9)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, c, d, a, b, w[15], 0xd8a1e681, 14)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, b, c, d, a, w[4], 0xe7d3fbc8, 20)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, a, b, c, d, w[9], 0x21e1cde6, 5)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, d, a, b, c, w[14], 0xc33707d6, 9)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, c, d, a, b, w[3], 0xf4d50d87, 14)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, b, c, d, a, w[8], 0x455a14ed, 20)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, a, b, c, d, w[13], 0xa9e3e905, 5)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, d, a, b, c, w[2], 0xfcefa3f8, 9)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, c, d, a, b, w[7], 0x676f02d9, 14)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_G, b, c, d, a, w[12], 0x8d2a4c8a, 20)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, a, b, c, d, w[5], 0xfffa3942, 4)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, d, a, b, c, w[8], 0x8771f681, 11)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, c, d, a, b, w[11], 0x6d9d6122, 16)                                                  \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, b, c, d, a, w[14], 0xfde5380c, 23)                                                  \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, a, b, c, d, w[1], 0xa4beea44, 4)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, d, a, b, c, w[4], 0x4bdecfa9, 11)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, c, d, a, b, w[7], 0xf6bb4b60, 16)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, b, c, d, a, w[10], 0xbebfbc70, 23)                                                  \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, a, b, c, d, w[13], 0x289b7ec6, 4)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, d, a, b, c, w[0], 0xeaa127fa, 11)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, c, d, a, b, w[3], 0xd4ef3085, 16)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, b, c, d, a, w[6], 0x04881d05, 23)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, a, b, c, d, w[9], 0xd9d4d039, 4)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, d, a, b, c, w[12], 0xe6db99e5, 11)                                                  \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, c, d, a, b, w[15], 0x1fa27cf8, 16)                                                  \
    PYROMQ_MD5_STEP(PYROMQ_MD5_H_, b, c, d, a, w[2], 0xc4ac5665, 23)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, a, b, c, d, w[0], 0xf4292244, 6)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, d, a, b, c, w[7], 0x432aff97, 10)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, c, d, a, b, w[14], 0xab9423a7, 15)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, b, c, d, a, w[5], 0xfc93a039, 21)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, a, b, c, d, w[12], 0x655b59c3, 6)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, d, a, b, c, w[3], 0x8f0ccc92, 10)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, c, d, a, b, w[10], 0xffeff47d, 15)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, b, c, d, a, w[1], 0x85845dd1, 21)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, a, b, c, d, w[8], 0x6fa87e4f, 6)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, d, a, b, c, w[15], 0xfe2ce6e0, 10)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, c, d, a, b, w[6], 0xa3014314, 15)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, b, c, d, a, w[13], 0x4e0811a1, 21)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, a, b, c, d, w[4], 0xf7537e82, 6)                                                     \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, d, a, b, c, w[11], 0xbd3af235, 10)                                                   \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, c, d, a, b, w[2], 0x2ad7d2bb, 15)                                                    \
    PYROMQ_MD5_STEP(PYROMQ_MD5_I, b, c, d, a, w[9], 0xeb86d391, 21)

static inline uint32_t pyromq_md5_word(const uint8_t *at) {
    return (uint32_t) at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24;
}

static inline void pyromq_md5_store(uint8_t *at, uint32_t word) {
    at[0] = (uint8_t) word;
    at[1] = (uint8_t) (word >> 8);
    at[2] = (uint8_t) (word >> 16);
    at[3] = (uint8_t) (word >> 24);
}

static void pyromq_md5_blocks(uint32_t *state, const uint8_t *data, size_t count) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    while (count--) {
        const uint32_t a0 = a, b0 = b, c0 = c, d0 = d;
        uint32_t w[16];
        for (int i = 0; i < 16; i++)
            w[i] = pyromq_md5_word(data + 4 * i);
        PYROMQ_MD5_ROUNDS(a, b, c, d, w)
        a += a0;
        b += b0;
        c += c0;
        d += d0;
        data += PYROMQ_MD5_BLOCK;
    }
    state[0] = a;
    state[1] = b;
    state[2] = c;
    state[3] = d;
}

/* Fill in what stands behind the whole blocks of a text; return how many blocks that are. */
static size_t pyromq_md5_tail(const uint8_t *data, size_t length, uint8_t *tail) {
    const size_t left = length % PYROMQ_MD5_BLOCK, blocks = left < PYROMQ_MD5_BLOCK - 8 ? 1 : 2;
    const uint64_t bits = (uint64_t) length << 3;
    memset(tail, 0, 2 * PYROMQ_MD5_BLOCK);
    if (left)
        memcpy(tail, data + length - left, left);
    tail[left] = 0x80;
    pyromq_md5_store(tail + blocks * PYROMQ_MD5_BLOCK - 8, (uint32_t) bits);
    pyromq_md5_store(tail + blocks * PYROMQ_MD5_BLOCK - 4, (uint32_t) (bits >> 32));
    return blocks;
}

/* Write the sixteen bytes of the digest. */
static void pyromq_md5(const uint8_t *data, size_t length, uint8_t *digest) {
    uint32_t state[4] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};
    uint8_t tail[2 * PYROMQ_MD5_BLOCK];
    pyromq_md5_blocks(state, data, length / PYROMQ_MD5_BLOCK);
    pyromq_md5_blocks(state, tail, pyromq_md5_tail(data, length, tail));
    for (int i = 0; i < 4; i++)
        pyromq_md5_store(digest + 4 * i, state[i]);
}

/* Texts of one length side by side. Each step of MD5 waits for the one before it, so a processor that digests
 * one text does little at a time; eight texts in the lanes of its registers take hardly longer than one. */
#define PYROMQ_MD5_LANES 8

#if defined(__GNUC__) || defined(__clang__)
typedef uint32_t pyromq_md5_lanes __attribute__((vector_size(4 * PYROMQ_MD5_LANES)));

static inline __attribute__((always_inline)) void
pyromq_md5_side_by_side(uint32_t state[4][PYROMQ_MD5_LANES], const uint8_t *const *data, size_t count) {
    pyromq_md5_lanes a, b, c, d, w[16];
    memcpy(&a, state[0], sizeof a);
    memcpy(&b, state[1], sizeof b);
    memcpy(&c, state[2], sizeof c);
    memcpy(&d, state[3], sizeof d);
    for (size_t block = 0; block < count; block++) {
        const pyromq_md5_lanes a0 = a, b0 = b, c0 = c, d0 = d;
        for (int i = 0; i < 16; i++) {
            const size_t at = block * PYROMQ_MD5_BLOCK + 4 * (size_t) i;
            w[i] = (pyromq_md5_lanes){
                pyromq_md5_word(data[0] + at), pyromq_md5_word(data[1] + at), pyromq_md5_word(data[2] + at),
                pyromq_md5_word(data[3] + at), pyromq_md5_word(data[4] + at), pyromq_md5_word(data[5] + at),
                pyromq_md5_word(data[6] + at), pyromq_md5_word(data[7] + at)};
        }
        PYROMQ_MD5_ROUNDS(a, b, c, d, w)
        a += a0;
        b += b0;
        c += c0;
        d += d0;
    }
    memcpy(state[0], &a, sizeof a);
    memcpy(state[1], &b, sizeof b);
    memcpy(state[2], &c, sizeof c);
    memcpy(state[3], &d, sizeof d);
}

static void pyromq_md5_lanes_anywhere(uint32_t state[4][PYROMQ_MD5_LANES], const uint8_t *const *data, size_t count) {
    pyromq_md5_side_by_side(state, data, count);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
pyromq_md5_lanes_avx2(uint32_t state[4][PYROMQ_MD5_LANES], const uint8_t *const *data, size_t count) {
    pyromq_md5_side_by_side(state, data, count);
}

__attribute__((target("avx2,avx512f,avx512vl"))) static void
pyromq_md5_lanes_avx512(uint32_t state[4][PYROMQ_MD5_LANES], const uint8_t *const *data, size_t count) {
    pyromq_md5_side_by_side(state, data, count);
}
#endif

static void pyromq_md5_in_lanes(uint32_t state[4][PYROMQ_MD5_LANES], const uint8_t *const *data, size_t count) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vl"))
        pyromq_md5_lanes_avx512(state, data, count);
    else if (__builtin_cpu_supports("avx2"))
        pyromq_md5_lanes_avx2(state, data, count);
    else
#endif
        pyromq_md5_lanes_anywhere(state, data, count);
}

/* Write the digests of eight texts of one length. */
static void pyromq_md5_eight(const uint8_t *const *data, size_t length, uint8_t (*digests)[PYROMQ_MD5_DIGEST]) {
    static const uint32_t start[4] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};
    uint32_t state[4][PYROMQ_MD5_LANES];
    uint8_t tails[PYROMQ_MD5_LANES][2 * PYROMQ_MD5_BLOCK];
    const uint8_t *ends[PYROMQ_MD5_LANES];
    size_t blocks = 0;
    for (int lane = 0; lane < PYROMQ_MD5_LANES; lane++) {
        blocks = pyromq_md5_tail(data[lane], length, tails[lane]);
        ends[lane] = tails[lane];
        for (int i = 0; i < 4; i++)
            state[i][lane] = start[i];
    }
    pyromq_md5_in_lanes(state, data, length / PYROMQ_MD5_BLOCK);
    pyromq_md5_in_lanes(state, ends, blocks);
    for (int lane = 0; lane < PYROMQ_MD5_LANES; lane++)
        for (int i = 0; i < 4; i++)
            pyromq_md5_store(digests[lane] + 4 * i, state[i][lane]);
}
#else
static void pyromq_md5_eight(const uint8_t *const *data, size_t length, uint8_t (*digests)[PYROMQ_MD5_DIGEST]) {
    for (int lane = 0; lane < PYROMQ_MD5_LANES; lane++)
        pyromq_md5(data[lane], length, digests[lane]);
}
#endif

#endif
