/* What is used of libnghttp2's interface, and how it is found: when the module is imported, not when it is built.

   The interface of libnghttp2.so.14 is stable since 2015, so the declarations below serve every version of it. A
   machine needs neither its headers to build the kernel nor the library to use the rest of it. */

#ifndef PYROMQ_NGHTTP2_H
#define PYROMQ_NGHTTP2_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct nghttp2_session nghttp2_session;
typedef struct nghttp2_session_callbacks nghttp2_session_callbacks;
typedef struct nghttp2_option nghttp2_option;

typedef struct {
    uint8_t *name;
    uint8_t *value;
    size_t namelen;
    size_t valuelen;
    uint8_t flags;
} nghttp2_nv;

typedef struct {
    size_t length;
    int32_t stream_id;
    uint8_t type;
    uint8_t flags;
    uint8_t reserved;
} nghttp2_frame_hd;

typedef struct {
    int32_t settings_id;
    uint32_t value;
} nghttp2_settings_entry;

typedef union {
    int fd;
    void *ptr;
} nghttp2_data_source;

/* Whoever gives a session its memory. */
typedef struct {
    void *mem_user_data;
    void *(*malloc)(size_t, void *);
    void (*free)(void *, void *);
    void *(*calloc)(size_t, size_t, void *);
    void *(*realloc)(void *, size_t, void *);
} nghttp2_mem;

typedef ssize_t (*nghttp2_read)(nghttp2_session *, int32_t, uint8_t *, size_t, uint32_t *, nghttp2_data_source *,
                                void *);

typedef struct {
    nghttp2_data_source source;
    nghttp2_read read_callback;
} nghttp2_data_provider;

/* A frame is a union of many kinds; all begin with their head, and no more of them is read. */
typedef int (*nghttp2_on_frame)(nghttp2_session *, const nghttp2_frame_hd *, void *);
typedef int (*nghttp2_on_header)(nghttp2_session *, const nghttp2_frame_hd *, const uint8_t *, size_t,
                                 const uint8_t *, size_t, uint8_t, void *);
typedef int (*nghttp2_on_data)(nghttp2_session *, uint8_t, int32_t, const uint8_t *, size_t, void *);
typedef int (*nghttp2_on_close)(nghttp2_session *, int32_t, uint32_t, void *);

typedef struct {
    int (*callbacks_new)(nghttp2_session_callbacks **);
    void (*set_on_begin_frame)(nghttp2_session_callbacks *, nghttp2_on_frame);
    void (*set_on_frame_recv)(nghttp2_session_callbacks *, nghttp2_on_frame);
    void (*set_on_frame_send)(nghttp2_session_callbacks *, nghttp2_on_frame);
    void (*set_on_begin_headers)(nghttp2_session_callbacks *, nghttp2_on_frame);
    void (*set_on_header)(nghttp2_session_callbacks *, nghttp2_on_header);
    void (*set_on_data_chunk_recv)(nghttp2_session_callbacks *, nghttp2_on_data);
    void (*set_on_stream_close)(nghttp2_session_callbacks *, nghttp2_on_close);
    int (*option_new)(nghttp2_option **);
    void (*option_set_no_closed_streams)(nghttp2_option *, int);
    int (*session_server_new3)(nghttp2_session **, const nghttp2_session_callbacks *, void *,
                               const nghttp2_option *, nghttp2_mem *);
    void (*session_del)(nghttp2_session *);
    ssize_t (*session_mem_recv)(nghttp2_session *, const uint8_t *, size_t);
    ssize_t (*session_mem_send)(nghttp2_session *, const uint8_t **);
    int (*session_want_write)(nghttp2_session *);
    int (*session_resume_data)(nghttp2_session *, int32_t);
    int (*session_set_local_window_size)(nghttp2_session *, uint8_t, int32_t, int32_t);
    int (*submit_settings)(nghttp2_session *, uint8_t, const nghttp2_settings_entry *, size_t);
    int (*submit_response)(nghttp2_session *, int32_t, const nghttp2_nv *, size_t, const nghttp2_data_provider *);
    int (*submit_trailer)(nghttp2_session *, int32_t, const nghttp2_nv *, size_t);
    int (*submit_rst_stream)(nghttp2_session *, uint8_t, int32_t, uint32_t);
    int (*submit_ping)(nghttp2_session *, uint8_t, const uint8_t *);
    const char *(*strerror)(int);
    /* Not in all versions: NULL. */
    void (*option_set_stream_reset_rate_limit)(nghttp2_option *, uint64_t, uint64_t);
    void (*option_set_max_deflate_dynamic_table_size)(nghttp2_option *, size_t);
} nghttp2_calls;

static nghttp2_calls nghttp2;

/* Return NULL, or what is missing. */
static const char *nghttp2_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return "the library";
    }
#define FOUND(field, name)                                                                                            \
    if ((*(void **)&nghttp2.field = dlsym(library, name)) == NULL) {                                                  \
        dlclose(library);                                                                                             \
        return name;                                                                                                  \
    }
    FOUND(callbacks_new, "nghttp2_session_callbacks_new")
    FOUND(set_on_begin_frame, "nghttp2_session_callbacks_set_on_begin_frame_callback")
    FOUND(set_on_frame_recv, "nghttp2_session_callbacks_set_on_frame_recv_callback")
    FOUND(set_on_frame_send, "nghttp2_session_callbacks_set_on_frame_send_callback")
    FOUND(set_on_begin_headers, "nghttp2_session_callbacks_set_on_begin_headers_callback")
    FOUND(set_on_header, "nghttp2_session_callbacks_set_on_header_callback")
    FOUND(set_on_data_chunk_recv, "nghttp2_session_callbacks_set_on_data_chunk_recv_callback")
    FOUND(set_on_stream_close, "nghttp2_session_callbacks_set_on_stream_close_callback")
    FOUND(option_new, "nghttp2_option_new")
    FOUND(option_set_no_closed_streams, "nghttp2_option_set_no_closed_streams")
    FOUND(session_server_new3, "nghttp2_session_server_new3")
    FOUND(session_del, "nghttp2_session_del")
    FOUND(session_mem_recv, "nghttp2_session_mem_recv")
    FOUND(session_mem_send, "nghttp2_session_mem_send")
    FOUND(session_want_write, "nghttp2_session_want_write")
    FOUND(session_resume_data, "nghttp2_session_resume_data")
    FOUND(session_set_local_window_size, "nghttp2_session_set_local_window_size")
    FOUND(submit_settings, "nghttp2_submit_settings")
    FOUND(submit_response, "nghttp2_submit_response")
    FOUND(submit_trailer, "nghttp2_submit_trailer")
    FOUND(submit_rst_stream, "nghttp2_submit_rst_stream")
    FOUND(submit_ping, "nghttp2_submit_ping")
    FOUND(strerror, "nghttp2_strerror")
#undef FOUND
    *(void **)&nghttp2.option_set_stream_reset_rate_limit =
        dlsym(library, "nghttp2_option_set_stream_reset_rate_limit");
    *(void **)&nghttp2.option_set_max_deflate_dynamic_table_size =
        dlsym(library, "nghttp2_option_set_max_deflate_dynamic_table_size");
    return NULL;
}

#endif
