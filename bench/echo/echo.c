/*
 * The least that a broker can do with the system's help: take each request, write it to a log, and answer it.
 *
 *     echo PORT FOLDER
 *
 * One thread and epoll. A turn takes what epoll has, receives once from each connection, writes all whole
 * requests to the log with one pwrite, and answers each connection with one send: the system calls of our
 * broker, and nothing else. It checks nothing, keeps no queues and no index, and answers every request with
 * success. Headers are JSON or binary. A pull is answered with 32 messages of 1 KiB, as records are long.
 * Files of the log are 1 GiB, as the brokers' are; those that are full are removed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = 512,
    CONNECTIONS_MAX = 65536,
    RECEIVE_BYTES = 1 << 18,
    PULLED = 32,
    RECORD_BYTES = 1024 + 256,
    PULL_CODE = 11,
    BINARY_OPAQUE_AT = 5,
    FRAME_BYTES_MAX = 1 << 24,
};
static const off_t FILE_BYTES = 1 << 30;

typedef struct {
    char *data;
    size_t length, room;
} buffer;

typedef struct {
    buffer in, out;
    int is_noted;
} connection;

static connection connections[CONNECTIONS_MAX];
static buffer turn;
static char zeros[PULLED * RECORD_BYTES];
static const char *folder;
static int log_file = -1;
static long file_number;
static off_t log_end;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static char *room_for(buffer *of, size_t more) {
    if (of->length + more > of->room) {
        of->room = (of->length + more) * 2;
        of->data = realloc(of->data, of->room);
        if (of->data == NULL) fail("memory");
    }
    return of->data + of->length;
}

static void put(buffer *to, const void *bytes, size_t length) {
    memcpy(room_for(to, length), bytes, length);
    to->length += length;
}

static uint32_t load32(const char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void store32(char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static void next_file(void) {
    char path[4096];
    if (log_file >= 0) {
        close(log_file);
        snprintf(path, sizeof path, "%s/%020ld", folder, file_number++);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/%020ld", folder, file_number);
    log_file = open(path, O_RDWR | O_CREAT, 0600);
    if (log_file < 0 || ftruncate(log_file, FILE_BYTES) != 0) fail(path);
    log_end = 0;
}

static void write_log(void) {
    if (turn.length == 0) return;
    if (log_end + (off_t) turn.length > FILE_BYTES) next_file();
    if (pwrite(log_file, turn.data, turn.length, log_end) != (ssize_t) turn.length) fail("pwrite");
    log_end += turn.length;
    turn.length = 0;
}

static void answer_binary(buffer *out, uint32_t opaque) {
    char frame[8 + 21] = {0};
    store32(frame, 4 + 21);
    store32(frame + 4, 1u << 24 | 21);
    store32(frame + 8 + BINARY_OPAQUE_AT, opaque);
    store32(frame + 8 + BINARY_OPAQUE_AT + 4, 1);
    put(out, frame, sizeof frame);
}

static void answer_json(buffer *out, long opaque, long next_offset, size_t body) {
    char frame[512];
    int header = snprintf(
        frame + 8, sizeof frame - 8,
        "{\"code\":0,\"extFields\":{\"queueId\":\"0\",\"TRACE_ON\":\"true\",\"MSG_REGION\":\"DefaultRegion\","
        "\"msgId\":\"7F00000100002A9F0000000000000000\",\"queueOffset\":\"7\",\"nextBeginOffset\":\"%ld\"},"
        "\"flag\":1,\"language\":\"OTHER\",\"opaque\":%010ld,\"serializeTypeCurrentRPC\":\"JSON\","
        "\"version\":399}",
        next_offset, opaque);
    store32(frame, 4 + header + body);
    store32(frame + 4, header);
    put(out, frame, 8 + header);
    if (body) put(out, zeros, body);
}

static long number_behind(const char *header, size_t length, const char *name) {
    const char *at = memmem(header, length, name, strlen(name));
    return at == NULL ? 0 : atol(at + strlen(name));
}

/* The opaque is behind all fields: looked for from the end, a text among them cannot be it. */
static long opaque_of(const char *header, size_t length) {
    static const char name[] = "\"opaque\":";
    for (long at = (long) length - 9; at >= 0; at--)
        if (header[at] == '"' && memcmp(header + at, name, 9) == 0) return atol(header + at + 9);
    return 0;
}

static void answer(connection *of, const char *frame, size_t length) {
    uint32_t mark = load32(frame + 4);
    const char *header = frame + 8;
    if (mark >> 24) {
        put(&turn, frame, length);
        answer_binary(&of->out, load32(header + BINARY_OPAQUE_AT));
        return;
    }
    size_t size = mark & 0xFFFFFF;
    long opaque = opaque_of(header, size);
    if (number_behind(header, size < 16 ? size : 16, "\"code\":") == PULL_CODE) {
        long next = number_behind(header, size, "\"queueOffset\":\"") + PULLED;
        answer_json(&of->out, opaque, next, sizeof zeros);
        return;
    }
    put(&turn, frame, length);
    answer_json(&of->out, opaque, 0, 0);
}

static int take(int number) {
    connection *of = &connections[number];
    char *at = room_for(&of->in, RECEIVE_BYTES);
    ssize_t count = recv(number, at, RECEIVE_BYTES, 0);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    of->in.length += count;
    size_t start = 0;
    while (of->in.length - start >= 8) {
        uint32_t length = load32(of->in.data + start);
        if (length < 4 || length > FRAME_BYTES_MAX) return 0;
        if (of->in.length - start < 4 + (size_t) length) break;
        answer(of, of->in.data + start, 4 + (size_t) length);
        start += 4 + (size_t) length;
    }
    memmove(of->in.data, of->in.data + start, of->in.length - start);
    of->in.length -= start;
    return 1;
}

static void send_some(int number, int poll) {
    connection *of = &connections[number];
    ssize_t count = send(number, of->out.data, of->out.length, MSG_NOSIGNAL);
    if (count < 0) count = 0;
    memmove(of->out.data, of->out.data + count, of->out.length - count);
    of->out.length -= count;
    if (of->out.length || of->is_noted) {
        struct epoll_event event = {.events = EPOLLIN | (of->out.length ? EPOLLOUT : 0), .data.fd = number};
        epoll_ctl(poll, EPOLL_CTL_MOD, number, &event);
        of->is_noted = of->out.length > 0;
    }
}

static void forget(int number) {
    close(number);
    connections[number].in.length = connections[number].out.length = 0;
    connections[number].is_noted = 0;
}

static void accept_all(int listening, int poll) {
    int number, yes = 1;
    while ((number = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (number >= CONNECTIONS_MAX) {
            close(number);
            continue;
        }
        setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = number};
        epoll_ctl(poll, EPOLL_CTL_ADD, number, &event);
    }
}

int main(int count, char **words) {
    if (count != 3) return fprintf(stderr, "echo PORT FOLDER\n"), 2;
    folder = words[2];
    int yes = 1, poll = epoll_create1(0), listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct rlimit files = {CONNECTIONS_MAX, CONNECTIONS_MAX};
    setrlimit(RLIMIT_NOFILE, &files);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listening, (struct sockaddr *) &address, sizeof address) || listen(listening, 4096)) fail("listen");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, events[EVENTS];
    epoll_ctl(poll, EPOLL_CTL_ADD, listening, &event);
    next_file();
    for (;;) {
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            int number = events[i].data.fd;
            if (number == listening) {
                accept_all(listening, poll);
                events[i].events = 0;
            } else if (events[i].events & ~EPOLLOUT && !take(number)) {
                forget(number);
                events[i].events = 0;
            }
        }
        write_log();
        for (int i = 0; i < ready; i++)
            if (events[i].events && connections[events[i].data.fd].out.length) send_some(events[i].data.fd, poll);
    }
}
