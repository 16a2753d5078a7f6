"""The part of libnghttp2's interface that is used; see `nghttp2.h`."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t


cdef extern from "nghttp2.h":
    ctypedef long ssize_t

    ctypedef struct nghttp2_session:
        pass

    ctypedef struct nghttp2_session_callbacks:
        pass

    ctypedef struct nghttp2_option:
        pass

    ctypedef struct nghttp2_nv:
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags

    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags

    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value

    ctypedef struct nghttp2_mem:
        void *mem_user_data
        void *(*malloc)(size_t, void *) noexcept
        void (*free)(void *, void *) noexcept
        void *(*calloc)(size_t, size_t, void *) noexcept
        void *(*realloc)(void *, size_t, void *) noexcept

    ctypedef union nghttp2_data_source:
        void *ptr

    ctypedef ssize_t (*nghttp2_read)(
        nghttp2_session *, int32_t, uint8_t *, size_t, uint32_t *, nghttp2_data_source *, void *
    ) noexcept

    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_read read_callback

    ctypedef int (*nghttp2_on_frame)(nghttp2_session *, const nghttp2_frame_hd *, void *) noexcept
    ctypedef int (*nghttp2_on_header)(
        nghttp2_session *, const nghttp2_frame_hd *, const uint8_t *, size_t, const uint8_t *, size_t, uint8_t,
        void *
    ) noexcept
    ctypedef int (*nghttp2_on_data)(
        nghttp2_session *, uint8_t, int32_t, const uint8_t *, size_t, void *
    ) noexcept
    ctypedef int (*nghttp2_on_close)(nghttp2_session *, int32_t, uint32_t, void *) noexcept

    ctypedef struct nghttp2_calls:
        int (*callbacks_new)(nghttp2_session_callbacks **) noexcept
        void (*set_on_begin_frame)(nghttp2_session_callbacks *, nghttp2_on_frame) noexcept
        void (*set_on_frame_recv)(nghttp2_session_callbacks *, nghttp2_on_frame) noexcept
        void (*set_on_frame_send)(nghttp2_session_callbacks *, nghttp2_on_frame) noexcept
        void (*set_on_begin_headers)(nghttp2_session_callbacks *, nghttp2_on_frame) noexcept
        void (*set_on_header)(nghttp2_session_callbacks *, nghttp2_on_header) noexcept
        void (*set_on_data_chunk_recv)(nghttp2_session_callbacks *, nghttp2_on_data) noexcept
        void (*set_on_stream_close)(nghttp2_session_callbacks *, nghttp2_on_close) noexcept
        int (*option_new)(nghttp2_option **) noexcept
        void (*option_set_no_closed_streams)(nghttp2_option *, int) noexcept
        int (*session_server_new3)(
            nghttp2_session **, const nghttp2_session_callbacks *, void *, const nghttp2_option *, nghttp2_mem *
        ) noexcept
        void (*session_del)(nghttp2_session *) noexcept
        ssize_t (*session_mem_recv)(nghttp2_session *, const uint8_t *, size_t) noexcept
        ssize_t (*session_mem_send)(nghttp2_session *, const uint8_t **) noexcept
        int (*session_want_write)(nghttp2_session *) noexcept
        int (*session_resume_data)(nghttp2_session *, int32_t) noexcept
        int (*session_set_local_window_size)(nghttp2_session *, uint8_t, int32_t, int32_t) noexcept
        int (*submit_settings)(nghttp2_session *, uint8_t, const nghttp2_settings_entry *, size_t) noexcept
        int (*submit_response)(
            nghttp2_session *, int32_t, const nghttp2_nv *, size_t, const nghttp2_data_provider *
        ) noexcept
        int (*submit_trailer)(nghttp2_session *, int32_t, const nghttp2_nv *, size_t) noexcept
        int (*submit_rst_stream)(nghttp2_session *, uint8_t, int32_t, uint32_t) noexcept
        int (*submit_ping)(nghttp2_session *, uint8_t, const uint8_t *) noexcept
        const char *(*strerror)(int) noexcept
        void (*option_set_stream_reset_rate_limit)(nghttp2_option *, uint64_t, uint64_t) noexcept
        void (*option_set_max_deflate_dynamic_table_size)(nghttp2_option *, size_t) noexcept

    nghttp2_calls nghttp2
    const char *nghttp2_open(const char *) noexcept


cdef extern from "session_memory.h":
    ctypedef struct pyromq_session_memory:
        int is_open

    void pyromq_memory_open(pyromq_session_memory *memory) noexcept
    void pyromq_memory_close(pyromq_session_memory *memory) noexcept
    void *pyromq_memory_malloc(size_t size, void *own) noexcept
    void *pyromq_memory_calloc(size_t count, size_t size, void *own) noexcept
    void pyromq_memory_free(void *part, void *own) noexcept
    void *pyromq_memory_realloc(void *part, size_t size, void *own) noexcept
