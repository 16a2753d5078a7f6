/* The memory of one session of nghttp2, in as few pages as an idle connection can have.

   nghttp2 allocates a session in large parts of which most is never touched: two rings of header fields, filled from
   their ends, a map of streams, and room for a frame of 16 KiB. From malloc they take their pages all the same, for
   each page has something of a neighbour. So a session has a few pages of its own, laid out so that what is touched
   lies together:

       | map of streams | ring, ring | session, frame's first bytes | frame ... |
            page                page                 page             pages, as a rule untouched

   What a session allocates later, or what does not fit, is malloc's: only the place depends on sizes. */

#ifndef PYROMQ_SESSION_MEMORY_H
#define PYROMQ_SESSION_MEMORY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PYROMQ_PAGE 4096
#define PYROMQ_PAGES 7
/* Of the third page the frame has the last bytes: a small frame needs no page more. A multiple of 16, as from malloc. */
#define PYROMQ_MIDDLE (3 * PYROMQ_PAGE - 1072)
/* Smaller parts are malloc's, and larger ones are the frame. */
#define PYROMQ_PART_MIN 1024
#define PYROMQ_FRAME_MIN 16384

typedef struct {
    uint8_t *pages;
    /* Whether the session is being made; how much of both sides of the middle is taken. */
    int is_open;
    size_t below, above;
} pyromq_session_memory;

/* Have the parts of a session placed from now on; without pages all are malloc's. */
static inline void pyromq_memory_open(pyromq_session_memory *memory) {
    void *pages = MAP_FAILED;
    memset(memory, 0, sizeof *memory);
    if (sysconf(_SC_PAGESIZE) == PYROMQ_PAGE) {
        pages = mmap(NULL, PYROMQ_PAGES * PYROMQ_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (pages == MAP_FAILED) {
        return;
    }
#ifdef MADV_NOHUGEPAGE
    madvise(pages, PYROMQ_PAGES * PYROMQ_PAGE, MADV_NOHUGEPAGE);
#endif
    memory->pages = (uint8_t *)pages;
    memory->is_open = 1;
}

static inline void pyromq_memory_close(pyromq_session_memory *memory) {
    if (memory->pages != NULL) {
        munmap(memory->pages, PYROMQ_PAGES * PYROMQ_PAGE);
        memory->pages = NULL;
    }
    memory->is_open = 0;
}

static inline int pyromq_memory_has(const pyromq_session_memory *memory, const void *part) {
    uintptr_t at = (uintptr_t)part, pages = (uintptr_t)memory->pages;
    return memory->pages != NULL && at >= pages && at < pages + PYROMQ_PAGES * PYROMQ_PAGE;
}

/* Return a place in the pages, which are zeros; NULL if there is none. */
static inline void *pyromq_memory_place(pyromq_session_memory *memory, size_t size) {
    size_t rounded;
    if (!memory->is_open || size < PYROMQ_PART_MIN || size > PYROMQ_PAGES * PYROMQ_PAGE) {
        return NULL;
    }
    rounded = (size + 15) & ~(size_t)15;
    if (size >= PYROMQ_FRAME_MIN) {
        if (rounded > PYROMQ_PAGES * PYROMQ_PAGE - PYROMQ_MIDDLE - memory->above) {
            return NULL;
        }
        memory->above += rounded;
        return memory->pages + PYROMQ_MIDDLE + memory->above - rounded;
    }
    if (rounded > PYROMQ_MIDDLE - memory->below) {
        return NULL;
    }
    memory->below += rounded;
    return memory->pages + PYROMQ_MIDDLE - memory->below;
}

static void *pyromq_memory_malloc(size_t size, void *own) {
    void *placed = pyromq_memory_place((pyromq_session_memory *)own, size);
    return placed != NULL ? placed : malloc(size);
}

static void *pyromq_memory_calloc(size_t count, size_t size, void *own) {
    void *placed = NULL;
    if (size == 0 || count <= SIZE_MAX / size) {
        placed = pyromq_memory_place((pyromq_session_memory *)own, count * size);
    }
    return placed != NULL ? placed : calloc(count, size);
}

/* A part of the pages is given away once: what is freed of them goes with the session. */
static void pyromq_memory_free(void *part, void *own) {
    if (!pyromq_memory_has((pyromq_session_memory *)own, part)) {
        free(part);
    }
}

static void *pyromq_memory_realloc(void *part, size_t size, void *own) {
    pyromq_session_memory *memory = (pyromq_session_memory *)own;
    size_t behind;
    void *larger;
    if (part == NULL) {
        return pyromq_memory_malloc(size, own);
    }
    if (!pyromq_memory_has(memory, part)) {
        return realloc(part, size);
    }
    /* Its size is not known; it ends where the pages do at the latest. */
    behind = (size_t)(memory->pages + PYROMQ_PAGES * PYROMQ_PAGE - (uint8_t *)part);
    larger = malloc(size);
    if (larger != NULL) {
        memcpy(larger, part, size < behind ? size : behind);
    }
    return larger;
}

#endif
