/* What the attacks have in common: a message of the preload library with any content, and a way to send it. */
#ifndef ATTACK_H
#define ATTACK_H

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_MAX = 64 * 1024, LIST_MAX = 8192, FDS_MAX = 250 };

/* Version, keys and kinds of `record::wire`. */
enum { WIRE_VERSION = 2 };
enum { K_VERSION, K_KIND, K_TIME, K_USAGE, K_EXE, K_ARGV = 6, K_CWD = 8, K_ENV = 9, K_OBJECTS = 12, K_REASON = 14 };
enum { KIND_START = 1, KIND_SUPPRESSED = 2 };

struct message {
    unsigned char bytes[MESSAGE_MAX];
    size_t len;
};

static inline void die(const char *what) {
    perror(what);
    exit(66);
}

static inline uint64_t monotonic(void) {
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static inline void pause_ms(int ms) {
    poll(NULL, 0, ms);
}

/* Until whoever started us closes our standard input. */
static inline void await_end(void) {
    char byte;

    while (read(0, &byte, 1) > 0) {
    }
}

static inline void put(struct message *m, const void *bytes, size_t len) {
    if (m->len + len > sizeof m->bytes) exit(65);
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

static inline void put_byte(struct message *m, unsigned byte) {
    unsigned char one = (unsigned char)byte;

    put(m, &one, 1);
}

static inline void put_head(struct message *m, unsigned major, uint64_t value) {
    if (value < 24) {
        put_byte(m, major | (unsigned)value);
        return;
    }
    put_byte(m, major | 27);
    for (int shift = 56; shift >= 0; shift -= 8) put_byte(m, (unsigned)(value >> shift) & 0xff);
}

static inline void put_uint(struct message *m, uint64_t value) {
    put_head(m, 0, value);
}

static inline void put_text(struct message *m, const char *text) {
    put_head(m, 0x40, strlen(text));
    put(m, text, strlen(text));
}

static inline void put_field(struct message *m, unsigned key, uint64_t value) {
    put_uint(m, key);
    put_uint(m, value);
}

static inline void open_list(struct message *m, unsigned key) {
    put_uint(m, key);
    put_byte(m, 0x9f);
}

static inline void end_list(struct message *m) {
    put_byte(m, 0xff);
}

/* A file that is said to be mapped at an address; 0 says none. */
static inline void put_object(struct message *m, uint64_t address, const char *path) {
    put_byte(m, 0x84);
    if (address == 0) put_byte(m, 0xf6);
    else put_uint(m, address);
    put_text(m, path);
    put_byte(m, 0xf6);
    put_byte(m, 0xf6);
}

/* The beginning of every message; `finish` is its end. */
static inline void begin(struct message *m, unsigned kind, uint64_t time) {
    m->len = 0;
    put_byte(m, 0xbf);
    put_field(m, K_VERSION, WIRE_VERSION);
    put_field(m, K_KIND, kind);
    put_field(m, K_TIME, time);
}

static inline void finish(struct message *m) {
    put_byte(m, 0xff);
}

/* A whole message about a program that does not exist. */
static inline void made_up(struct message *m, uint64_t time, const char *mark) {
    begin(m, KIND_START, time);
    put_uint(m, K_EXE);
    put_text(m, "/usr/bin/made-up");
    open_list(m, K_ARGV);
    put_text(m, "made-up");
    put_text(m, mark);
    end_list(m);
    open_list(m, K_OBJECTS);
    put_object(m, 0, "/usr/lib/made-up.so");
    end_list(m);
    finish(m);
}

/* Connects to the user's own socket, or to the common one as the preload library does. */
static inline int dial(const char *name) {
    struct sockaddr_un address;
    char own[sizeof address.sun_path + 16];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    if (fd < 0) die("socket");
    snprintf(own, sizeof own, "%s.%u", name, (unsigned)getuid());
    for (int attempt = 0; attempt < 20000; attempt++) {
        const char *path = (attempt & 1) == 0 ? own : name;
        size_t len = strnlen(path, sizeof address.sun_path - 1);

        address = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(address.sun_path, path, len);
        if (connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) == 0)
            return fd;
        if (errno != EAGAIN && (attempt & 1) == 1) break;
    }
    close(fd);
    return -1;
}

/* Sends a message with descriptors; says whether all of it went. A socket that takes none gets none. */
static inline int deliver(int fd, const struct message *m, const int *fds, int count) {
    char control[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    struct iovec piece = {(void *)m->bytes, m->len};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

    if (count > 0) {
        struct cmsghdr *c;

        memset(control, 0, sizeof control);
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)m->len;
}

static inline int send_to(const char *name, const struct message *m) {
    int fd = dial(name), sent;

    if (fd < 0) return 0;
    sent = deliver(fd, m, NULL, 0);
    close(fd);
    return sent;
}

#endif
