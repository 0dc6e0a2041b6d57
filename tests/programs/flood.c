/* Floods a socket with garbage: connect, send 100 bytes, close, as fast as possible.
 *
 * usage: flood NAME SECONDS PROCS     (NAME: a path or @ABSTRACT)
 *
 * Of a path, NAME.UID is taken where it exists, as the guest does. Prints the number of messages sent. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 100 };

static double now(void) {
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

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

static unsigned long flood(const char *name, double until) {
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    unsigned long sent = 0;

    while (now() < until) sent += send_one(&address, length) ? 1u : 0u;
    return sent;
}

int main(int argc, char **argv) {
    int procs = argc == 4 ? atoi(argv[3]) : 0;
    unsigned long *sent, total = 0;
    double until = now() + (argc == 4 ? atof(argv[2]) : 0);

    if (procs < 1 || procs > 512) {
        fprintf(stderr, "usage: flood NAME SECONDS PROCS\n");
        return 64;
    }
    sent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sent == MAP_FAILED) return 66;
    for (int i = 0; i < procs; i++) {
        if (fork() == 0) {
            sent[i] = flood(argv[1], until);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
    for (int i = 0; i < procs; i++) total += sent[i];
    printf("%lu\n", total);
    return 0;
}
