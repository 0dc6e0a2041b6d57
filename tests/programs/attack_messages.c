/* Sends messages of the preload library that are valid and hostile.
 *
 * usage: attack_messages SOCKET KIND COUNT [MARK]
 *
 *   empty-lists   time 0, three lists of 8,192 empty items: 57 kB that take twenty times as much once decoded
 *   unmatched     each from a process that has exited before it is read, with a time that fits no image
 *   heavy         as many as the socket takes, about the sender's own program, each full of things to redact
 *   numbers       every number is the largest one
 *   repeat        every key many times
 *   live          COUNT programs that stay, each with 48 kB of long paths that it claims to have loaded
 *   one           (used by `live`)
 *
 * Prints how many were sent, in 8 seconds at most; `live` then waits for
 * the end of standard input. */
#define _GNU_SOURCE
#include "attack.h"

enum { SECONDS_MAX = 8 };

static void empty_lists(struct message *m, uint64_t time) {
    begin(m, KIND_START, time);
    for (int list = 0; list < 2; list++) {
        open_list(m, list == 0 ? K_ARGV : K_ENV);
        for (int i = 0; i < LIST_MAX; i++) put_byte(m, 0x40);
        end_list(m);
    }
    open_list(m, K_OBJECTS);
    for (int i = 0; i < LIST_MAX; i++) put(m, "\x84\xf6\x40\xf6\xf6", 5);
    end_list(m);
    finish(m);
}

static void unmatched(struct message *m, uint64_t time) {
    char item[64];

    begin(m, KIND_START, time);
    open_list(m, K_ARGV);
    for (int i = 0; i < 800; i++) {
        snprintf(item, sizeof item, "an argument of some length, number %06d", i);
        put_text(m, item);
    }
    end_list(m);
    finish(m);
}

static void heavy(struct message *m) {
    char item[160];

    begin(m, KIND_START, monotonic());
    put_uint(m, K_EXE);
    put_text(m, "/home/attacker/heavy");
    open_list(m, K_ARGV);
    for (int i = 0; i < 300; i++) {
        snprintf(item, sizeof item, "--url=https://user:secret%d@host/?token=abc&password=x%d;PGPASSWORD=y", i, i);
        put_text(m, item);
    }
    end_list(m);
    open_list(m, K_ENV);
    for (int i = 0; i < 100; i++) {
        snprintf(item, sizeof item, "OMP_PASSWORD_%d=https://user:secret@host/?token=abc", i);
        put_text(m, item);
    }
    end_list(m);
    open_list(m, K_OBJECTS);
    for (int i = 0; i < 200; i++) {
        snprintf(item, sizeof item, "/home/attacker/no/such/library/%d/lib%d.so", (int)getpid(), i);
        put_object(m, 0, item);
    }
    end_list(m);
    finish(m);
}

static void numbers(struct message *m, uint64_t time, const char *mark) {
    begin(m, KIND_START, time);
    put_uint(m, K_USAGE);
    put_byte(m, 0x85);
    for (int i = 0; i < 5; i++) put_head(m, 0, UINT64_MAX);
    open_list(m, K_ARGV);
    put_text(m, "numbers");
    put_text(m, mark);
    end_list(m);
    for (unsigned key = 7; key <= 13; key += 3) put_field(m, key, UINT64_MAX);
    put_field(m, 1000, UINT64_MAX);
    finish(m);
}

static void repeat(struct message *m, const char *mark) {
    begin(m, KIND_START, monotonic());
    for (int i = 0; i < 5; i++) {
        open_list(m, K_ARGV);
        for (int k = 0; k < LIST_MAX; k++) put_byte(m, 0x40);
        end_list(m);
    }
    open_list(m, K_ARGV);
    put_text(m, "repeat");
    put_text(m, mark);
    end_list(m);
    finish(m);
}

static void long_paths(struct message *m, const char *mark) {
    char path[1024];

    begin(m, KIND_START, monotonic());
    open_list(m, K_ARGV);
    put_text(m, mark);
    end_list(m);
    open_list(m, K_OBJECTS);
    memset(path, 'p', sizeof path);
    for (int i = 0; i < 46; i++) {
        int n = snprintf(path, sizeof path, "/home/attacker/%d/%d/", (int)getpid(), i);

        path[n] = 'p';
        path[sizeof path - 1] = '\0';
        put_object(m, 0, path);
    }
    end_list(m);
    finish(m);
}

/* Each from a copy of ours, which is gone at once. */
static long from_copies(const char *socket, const struct message *m, long count) {
    long sent = 0;

    for (long i = 0; i < count; i++) {
        int status;
        pid_t pid = fork();

        if (pid == 0) _exit(send_to(socket, m) ? 0 : 1);
        if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) sent++;
    }
    return sent;
}

static long live(char **argv, long count) {
    long started = 0;
    char mark[32];

    for (long i = 0; i < count; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            snprintf(mark, sizeof mark, "%ld", i);
            execl("/proc/self/exe", argv[0], argv[1], "one", "1", mark, (char *)NULL);
            _exit(66);
        }
        started += pid > 0;
    }
    return started;
}

int main(int argc, char **argv) {
    static struct message m;
    const char *kind = argc > 2 ? argv[2] : "", *mark = argc > 4 ? argv[4] : "none";
    long count = argc > 3 ? atol(argv[3]) : 0, sent = 0;
    uint64_t until = monotonic() + (uint64_t)SECONDS_MAX * 1000000000u;

    if (count < 1 || count > 100000) {
        fprintf(stderr, "usage: attack_messages SOCKET KIND COUNT [MARK]\n");
        return 64;
    }
    if (strcmp(kind, "live") == 0) {
        printf("%ld\n", live(argv, count));
        fflush(stdout);
        while (wait(NULL) > 0) {
        }
        return 0;
    }
    if (strcmp(kind, "one") == 0) {
        long_paths(&m, mark);
        send_to(argv[1], &m);
        await_end();
        return 0;
    }
    if (strcmp(kind, "empty-lists") == 0) empty_lists(&m, 0);
    if (strcmp(kind, "unmatched") == 0) unmatched(&m, 1);
    if (strcmp(kind, "heavy") == 0) heavy(&m);
    if (strcmp(kind, "numbers") == 0) numbers(&m, monotonic(), mark);
    if (strcmp(kind, "repeat") == 0) repeat(&m, mark);
    if (m.len == 0) return 64;
    if (strcmp(kind, "unmatched") == 0) sent = from_copies(argv[1], &m, count);
    else
        for (long i = 0; i < count && monotonic() < until; i++) sent += send_to(argv[1], &m);
    printf("%ld\n", sent);
    return 0;
}
