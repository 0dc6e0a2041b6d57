/* Sits on the agent's socket name and keeps every byte it is given.
 *
 * usage: squatter @NAME|PATH OUTFILE
 *
 * Prints "ready" when it listens; accepts until SIGTERM, appending what comes to OUTFILE; then prints
 * "connections=N messages=M bytes=B descriptors=D" and exits 0. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEERS_MAX = 1024, MESSAGE_MAX = 1 << 20 };

static struct { unsigned long connections, messages, bytes, descriptors; } seen;
static volatile sig_atomic_t stop;

static void on_term(int number) {
    stop = number;
}

static void fail(const char *what) {
    perror(what);
    exit(66);
}

static int listen_on(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name), start = offsetof(struct sockaddr_un, sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (length >= sizeof address.sun_path) exit(64);
    memcpy(address.sun_path, name, length);
    if (name[0] == '@') address.sun_path[0] = '\0';
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, (socklen_t)(start + length)) != 0) fail(name);
    if (listen(fd, 128) != 0) fail("listen");
    return fd;
}

static void drop_descriptors(struct msghdr *message) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        for (size_t at = 0; c->cmsg_type == SCM_RIGHTS && CMSG_LEN(at) < c->cmsg_len; at += sizeof(int)) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            close(fd);
            seen.descriptors++;
        }
    }
}

/* Takes one message; says whether the peer may send more. */
static int take(int peer, int out) {
    static char bytes[MESSAGE_MAX];
    char control[1024];
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(peer, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (length < 0) return errno == EAGAIN || errno == EINTR;
    if (length == 0) return 0;
    drop_descriptors(&message);
    seen.messages++;
    seen.bytes += (size_t)length;
    if (write(out, bytes, (size_t)length) != length) fail("write");
    return 1;
}

/* SIGTERM comes only while we wait, so it is never missed; gives the mask for that time. */
static sigset_t hold_sigterm(void) {
    struct sigaction action = {.sa_handler = on_term};
    sigset_t held, before;

    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    sigprocmask(SIG_BLOCK, &held, &before);
    sigdelset(&before, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    return before;
}

static void serve(int listener, int out, const sigset_t *asleep) {
    static struct pollfd fds[1 + PEERS_MAX];
    int count = 1;

    fds[0] = (struct pollfd){listener, POLLIN, 0};
    while (!stop) {
        if (ppoll(fds, (nfds_t)count, NULL, asleep) < 0) continue;
        for (int i = count - 1; i > 0; i--) {
            if (fds[i].revents == 0 || take(fds[i].fd, out)) continue;
            close(fds[i].fd);
            fds[i] = fds[--count];
        }
        for (int peer; count <= PEERS_MAX && (peer = accept(listener, NULL, NULL)) >= 0;) {
            fds[count++] = (struct pollfd){peer, POLLIN, 0};
            seen.connections++;
        }
    }
}

int main(int argc, char **argv) {
    sigset_t asleep = hold_sigterm();
    int listener, out;

    if (argc != 3) {
        fprintf(stderr, "usage: squatter @NAME|PATH OUTFILE\n");
        return 64;
    }
    out = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (out < 0) fail(argv[2]);
    listener = listen_on(argv[1]);
    if (write(1, "ready\n", 6) != 6) fail("stdout");
    serve(listener, out, &asleep);
    if (argv[1][0] != '@') unlink(argv[1]);
    printf("connections=%lu messages=%lu bytes=%lu descriptors=%lu\n", seen.connections, seen.messages,
           seen.bytes, seen.descriptors);
    return 0;
}
