/* Sends messages in the name of a program that did not send them, or about what it did not do.
 *
 * usage: attack_forge SOCKET KIND MARK [ARGUMENT...]
 *
 *   setuid HELPER      connects, executes a program that becomes root, and lets a child send
 *   child              connects, and lets a child send
 *   cross UID UID      (as root) the first user connects, and hands the connection to the second, who sends
 *   reuse              a child connects and ends; prints its number, waits for a line, and sends in its name
 *   future, past       an hour from now, an hour ago
 *   largest            the largest time there is
 *   twice              two messages about the same program: MARK-first and MARK-second
 *   suppress           asks not to be recorded
 *   claim PATH...      claims to have loaded these files
 *   swap FILE TARGET   maps FILE, puts a link to TARGET in its place, and claims FILE
 *
 * Each stays for a while, or until the end of standard input, so that it can be looked at. */
#define _GNU_SOURCE
#include "attack.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { HOUR = 3600, STAY_MS = 400 };

static struct message m;

int main(int argc, char **argv);

/* Sends when the parent has become another program: then its end of the pipe is closed. */
static void send_after_exec(int connection, int gate, const char *mark) {
    char byte;

    while (read(gate, &byte, 1) > 0) {
    }
    made_up(&m, monotonic(), mark);
    _exit(deliver(connection, &m, NULL, 0) ? 0 : 1);
}

static int as_setuid(const char *socket, const char *mark, char *helper) {
    int connection = dial(socket), gate[2];

    if (connection < 0 || pipe2(gate, O_CLOEXEC) != 0) die("connect");
    if (fork() == 0) {
        close(gate[1]);
        send_after_exec(connection, gate[0], mark);
    }
    execl(helper, helper, mark, (char *)NULL);
    return 66;
}

static int as_child(const char *socket, const char *mark) {
    int connection = dial(socket);

    made_up(&m, monotonic(), mark);
    if (fork() == 0) _exit(deliver(connection, &m, NULL, 0) ? 0 : 1);
    wait(NULL);
    return 0;
}

static void hand_over(int to, int fd) {
    struct message byte = {.bytes = {1}, .len = 1};

    if (!deliver(to, &byte, &fd, 1)) die("hand over");
}

static int take_over(int from) {
    char bytes[8], control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr header = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd;

    if (recvmsg(from, &header, 0) < 1 || CMSG_FIRSTHDR(&header) == NULL) die("take over");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
    return fd;
}

static void become_user(const char *number) {
    uid_t uid = (uid_t)atol(number);

    if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) die(number);
}

static int across(const char *socket, const char *mark, char *first, char *second) {
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) die("socketpair");
    if (fork() == 0) {
        int connection;

        become_user(second);
        connection = take_over(pair[1]);
        made_up(&m, monotonic(), mark);
        _exit(deliver(connection, &m, NULL, 0) ? 0 : 1);
    }
    become_user(first);
    hand_over(pair[0], dial(socket));
    wait(NULL);
    return 0;
}

static int reuse(const char *socket, const char *mark) {
    int pair[2], connection;
    char line[8];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) die("socketpair");
    pid = fork();
    if (pid == 0) {
        hand_over(pair[1], dial(socket));
        _exit(0);
    }
    connection = take_over(pair[0]);
    waitpid(pid, NULL, 0);
    printf("%d\n", (int)pid);
    fflush(stdout);
    if (read(0, line, sizeof line) < 1) return 66;
    made_up(&m, monotonic(), mark);
    return deliver(connection, &m, NULL, 0) ? 0 : 1;
}

static void send_made_up(const char *socket, uint64_t time, const char *mark, const char *tail) {
    char text[256];

    snprintf(text, sizeof text, "%s%s", mark, tail);
    made_up(&m, time, text);
    if (!send_to(socket, &m)) exit(1);
}

/* Every other one at an address at which another file is mapped. */
static void claim(const char *socket, const char *mark, const void *address, char **paths) {
    begin(&m, KIND_START, monotonic());
    put_uint(&m, K_EXE);
    put_text(&m, paths[0]);
    open_list(&m, K_ARGV);
    put_text(&m, "claim");
    put_text(&m, mark);
    end_list(&m);
    open_list(&m, K_OBJECTS);
    for (int i = 0; paths[i] != NULL; i++) put_object(&m, i % 2 == 1 ? (uint64_t)(uintptr_t)address : 0, paths[i]);
    end_list(&m);
    finish(&m);
    if (!send_to(socket, &m)) exit(1);
}

static void swap(const char *socket, const char *mark, char *file, const char *target) {
    int fd = open(file, O_RDONLY);
    char *paths[] = {file, file, NULL};
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

    if (mapped == MAP_FAILED) die(file);
    if (unlink(file) != 0 || symlink(target, file) != 0) die(target);
    claim(socket, mark, mapped, paths);
}

static void suppress(const char *socket) {
    begin(&m, KIND_SUPPRESSED, monotonic());
    put_field(&m, K_REASON, 1);
    finish(&m);
    if (!send_to(socket, &m)) exit(1);
}

int main(int argc, char **argv) {
    const char *socket = argv[1], *kind = argc > 3 ? argv[2] : "", *mark = argv[3];
    uint64_t now = monotonic(), hour = (uint64_t)HOUR * 1000000000u;

    if (strcmp(kind, "setuid") == 0 && argc == 5) return as_setuid(socket, mark, argv[4]);
    if (strcmp(kind, "reuse") == 0) return reuse(socket, mark);
    if (strcmp(kind, "child") == 0) as_child(socket, mark);
    else if (strcmp(kind, "cross") == 0 && argc == 6) across(socket, mark, argv[4], argv[5]);
    else if (strcmp(kind, "future") == 0) send_made_up(socket, now + hour, mark, "");
    else if (strcmp(kind, "past") == 0) send_made_up(socket, now > hour ? now - hour : 1, mark, "");
    else if (strcmp(kind, "largest") == 0) send_made_up(socket, UINT64_MAX, mark, "");
    else if (strcmp(kind, "twice") == 0) {
        send_made_up(socket, now, mark, "-first");
        send_made_up(socket, monotonic(), mark, "-second");
    } else if (strcmp(kind, "suppress") == 0) suppress(socket);
    else if (strcmp(kind, "claim") == 0 && argc > 4) claim(socket, mark, (const void *)main, argv + 4);
    else if (strcmp(kind, "swap") == 0 && argc == 6) swap(socket, mark, argv[4], argv[5]);
    else {
        fprintf(stderr, "usage: attack_forge SOCKET KIND MARK [ARGUMENT...]\n");
        return 64;
    }
    pause_ms(STAY_MS);
    return 0;
}
