/* Floods a socket with garbage: connect, send 100 bytes, close, as fast as possible.
 *
 * usage: flood NAME PROCS     (NAME: a path or @ABSTRACT)
 *
 * Of a path, NAME.UID is taken where it exists, as the guest does. Prints "flooding" when every process has begun, stops at
 * the end of its standard input, and prints the number of messages sent. */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process has begun with its first tries. */
enum { MESSAGE = 100, MAX = 500, FIRST = 100 };

static socklen_t address_of(const char *name, struct sockaddr_un *address) {
    char own[sizeof address->sun_path];
    size_t length;

    snprintf(own, sizeof own, "%s.%u", name, (unsigned)getuid());
    if (name[0] != '@' && access(own, F_OK) == 0) name = own;
    length = strnlen(name, sizeof address->sun_path);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (name[0] == '@') address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

/* Without blocking: a full queue is tried again at once. */
static int send_one(const struct sockaddr_un *address, socklen_t length) {
    char garbage[MESSAGE];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), sent;

    memset(garbage, 0xa5, sizeof garbage);
    sent = connect(fd, (const struct sockaddr *)address, length) == 0 &&
           send(fd, garbage, sizeof garbage, MSG_NOSIGNAL) == MESSAGE;
    close(fd);
    return sent;
}

/* What parent and children share. */
static struct shared {
    volatile int stop;
    unsigned long sent[MAX];
} *shared;

static unsigned long flood(const char *name, int begun) {
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    unsigned long tries = 0, sent = 0;

    while (!shared->stop) {
        sent += send_one(&address, length) ? 1u : 0u;
        if (++tries == FIRST && write(begun, "x", 1) != 1) _exit(1);
    }
    return sent;
}

static void read_bytes(int fd, int count) {
    char byte;

    while (count-- > 0 && read(fd, &byte, 1) == 1) {
    }
}

int main(int argc, char **argv) {
    int procs = argc == 3 ? atoi(argv[2]) : 0, begun[2];
    unsigned long total = 0;

    if (procs < 1 || procs > MAX) {
        fprintf(stderr, "usage: flood NAME PROCS\n");
        return 64;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe(begun) != 0) return 66;
    for (int i = 0; i < procs; i++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            shared->sent[i] = flood(argv[1], begun[1]);
            _exit(0);
        }
    }
    read_bytes(begun[0], procs);
    puts("flooding");
    fflush(stdout);
    read_bytes(0, INT_MAX);
    shared->stop = 1;
    while (wait(NULL) > 0) {
    }
    for (int i = 0; i < procs; i++) total += shared->sent[i];
    printf("%lu\n", total);
    return 0;
}
