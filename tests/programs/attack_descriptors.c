/* Passes descriptors to the agent that take long to close, or that are not what they look like.
 *
 * usage: attack_descriptors SOCKET KIND COUNT SECONDS
 *
 * Closing a TCP socket with SO_LINGER whose peer does not read takes SECONDS. COUNT connections each pass one:
 *
 *   first      in the first message
 *   several    three in the first message
 *   second     in a second message on the same connection, which nobody reads
 *   silent     with a byte that is no message, on a connection that stays open
 *   refused    behind so many messages that the connection is refused
 *   nested     inside the queue of a UNIX socket that is passed itself
 *   mixed      descriptors of other kinds: epoll, pipe, pidfd, eventfd, directory, memory
 *   many       250 pieces of memory in each message
 *   mute       none at all: connections that stay open without a message
 *   late       as the shared memory, in every state that its owner can give it; each from a program that ends
 *
 * Prints how many messages went, and holds the peers open until the end of standard input. */
#define _GNU_SOURCE
#include "attack.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { LATE_KINDS = 10, LATE_BYTES = 64 * 1024, FLOOD = 2000, LIST_LEN = 3 * LIST_MAX + 2 };

static int listener = -1;

/* A connection to ourselves that is full. */
static int lingering(int seconds) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct linger linger = {1, seconds};
    socklen_t len = sizeof address;
    static char bytes[1 << 16];
    int fd = socket(AF_INET, SOCK_STREAM, 0), size = 4096;

    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0) die("listen");
    }
    getsockname(listener, (struct sockaddr *)&address, &len);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) die("connect");
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) != 0) die("SO_LINGER");
    return fd;
}

static int nested(int seconds) {
    struct message m = {.bytes = {0}, .len = 1};
    int pair[2], inner = lingering(seconds);

    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) die("socketpair");
    deliver(pair[0], &m, &inner, 1);
    close(inner);
    close(pair[0]);
    return pair[1];
}

static int memory_of(size_t size) {
    int fd = memfd_create("jobglass", MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) die("memory");
    return fd;
}

static int of_kind(int number) {
    int pair[2];

    switch (number % 6) {
    case 0: return epoll_create1(0);
    case 1: return pipe(pair) == 0 ? pair[number & 1] : -1;
    case 2: return (int)syscall(SYS_pidfd_open, getpid(), 0);
    case 3: return eventfd(7, 0);
    case 4: return open("/", O_PATH);
    default: return memory_of(1);
    }
}

/* Sends on a new connection and keeps nothing; says how many messages went. */
static int pass(const char *socket, const struct message *first, const struct message *second, int *fds, int count) {
    int fd = dial(socket), sent = 0;

    if (fd >= 0) {
        sent += deliver(fd, first, second == NULL ? fds : NULL, second == NULL ? count : 0);
        if (second != NULL) sent += deliver(fd, second, fds, count);
        close(fd);
    }
    for (int i = 0; i < count; i++) close(fds[i]);
    return sent;
}

static void start(struct message *m) {
    made_up(m, monotonic(), "descriptors");
}

static int attack(const char *socket, const char *kind, int number, int seconds) {
    static struct message m;
    struct message byte = {.bytes = {0xff}, .len = 1};
    int fds[FDS_MAX], count = 1;

    if (strcmp(kind, "mute") == 0) return dial(socket) >= 0;
    start(&m);
    if (strcmp(kind, "mixed") == 0) {
        for (count = 0; count < 6; count++) fds[count] = of_kind(number + count);
        return pass(socket, &m, NULL, fds, number % 2 == 0 ? 6 : 1);
    }
    if (strcmp(kind, "many") == 0) {
        for (count = 0; count < FDS_MAX; count++) fds[count] = memory_of(4096);
        return pass(socket, &m, NULL, fds, count);
    }
    if (strcmp(kind, "nested") == 0) {
        fds[0] = nested(seconds);
        return pass(socket, &m, NULL, fds, 1);
    }
    fds[0] = lingering(seconds);
    if (strcmp(kind, "several") == 0)
        while (count < 3) fds[count++] = lingering(seconds);
    if (strcmp(kind, "second") == 0) return pass(socket, &m, &m, fds, count);
    if (strcmp(kind, "silent") == 0) {
        int fd = dial(socket);

        /* The connection stays ours, and the agent has to give it up. */
        if (fd >= 0) deliver(fd, &byte, fds, 1);
        close(fds[0]);
        return fd >= 0;
    }
    return pass(socket, &m, NULL, fds, count);
}

static void put_late(int fd, uint64_t time, uint32_t len) {
    unsigned char head[24] = "JGL2";
    static char list[LATE_BYTES];

    memcpy(head + 4, &len, sizeof len);
    memcpy(head + 8, &time, sizeof time);
    list[0] = (char)0x9f;
    for (int i = 0; i < LIST_MAX; i++) memcpy(list + 1 + 3 * i, "\x82\xf6\x40", 3);
    list[LIST_LEN - 1] = (char)0xff;
    if (pwrite(fd, head, sizeof head, 0) < 0 || pwrite(fd, list, LIST_LEN, 24) < 0) perror("pwrite");
}

static void *resize(void *argument) {
    for (int fd = *(int *)argument;;) {
        if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)1 << 40) != 0) return NULL;
    }
}

/* Runs as a program of its own, since late memory is read when a program ends. */
static int late(const char *socket, int kind) {
    static struct message m;
    uint64_t time = monotonic();
    int fd = kind == 4 ? memfd_create("jobglass", MFD_HUGETLB | MFD_ALLOW_SEALING) : memory_of(LATE_BYTES), other;
    char path[64];
    pthread_t thread;

    made_up(&m, time, "late");
    if (fd < 0) fd = memory_of(0);
    if (kind != 4) put_late(fd, time, kind == 6 ? UINT32_MAX : 24 + LIST_LEN);
    if (kind == 1 && ftruncate(fd, (off_t)1 << 40) != 0) die("ftruncate");
    if (kind == 2 && ftruncate(fd, 0) != 0) die("ftruncate");
    if (kind == 3) fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    if (kind == 5) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        other = open(path, O_WRONLY);
        return other < 0 || deliver(dial(socket), &m, &other, 1) == 0;
    }
    if (kind == 7) fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
    if (kind == 9) pthread_create(&thread, NULL, resize, &fd);
    return deliver(dial(socket), &m, &fd, 1) == 0;
}

static int run_late(char **argv, int number) {
    char kind[16];
    pid_t pid = fork();
    int status;

    snprintf(kind, sizeof kind, "%d", number % LATE_KINDS);
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], argv[1], "late-one", "1", kind, (char *)NULL);
        _exit(66);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv) {
    static struct message m;
    const char *kind = argc > 2 ? argv[2] : "";
    int count = argc > 3 ? atoi(argv[3]) : 0, seconds = argc > 4 ? atoi(argv[4]) : 0, sent = 0;

    if (count < 1 || count > 2000) {
        fprintf(stderr, "usage: attack_descriptors SOCKET KIND COUNT SECONDS\n");
        return 64;
    }
    if (strcmp(kind, "late-one") == 0) return late(argv[1], seconds);
    if (strcmp(kind, "refused") == 0) {
        made_up(&m, 1, "flood");
        for (int i = 0; i < FLOOD; i++) send_to(argv[1], &m);
    }
    for (int i = 0; i < count; i++)
        sent += strcmp(kind, "late") == 0 ? run_late(argv, i) : attack(argv[1], kind, i, seconds);
    printf("%d\n", sent);
    fflush(stdout);
    await_end();
    return 0;
}
