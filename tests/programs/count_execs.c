/* Counts the executions in a process tree with the kernel's tracepoints: a count that owes nothing to ours.
 *
 * usage: count_execs OUTFILE -- CMD [ARGS]     (as root)
 *
 * Writes "execs=N forks=F overrun=O" to OUTFILE and exits with CMD's status (77: no tracefs). N holds the exec
 * of CMD itself, F counts processes and threads; O is what the trace buffers lost, and anything but 0 makes
 * N and F worthless. The count ends when CMD does.
 *
 * The kernel could follow the tree itself (set_event_pid and event-fork), but it forgets a pid only some time
 * after the pid is free again, and so loses the new owner where pids are reused quickly. So all events are
 * read, put in the order of a global counter and replayed: a pid is in the tree from its fork to its exit. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing"

enum { NO_TRACEFS = 77, FAILED = 66, PID_LIMIT = 1 << 22, COMM = 16, CHUNK = 1 << 16 };

static char instance[128];
static volatile sig_atomic_t stop_signal;

static void fail(int status, const char *what) {
    fprintf(stderr, "count_execs: %s: %s\n", what, strerror(errno));
    if (instance[0] != '\0') rmdir(instance);
    exit(status);
}

static void on_signal(int number) {
    stop_signal = number;
}

/* ---- tracefs ---- */

static int open_file(const char *name, int flags) {
    char path[256];

    snprintf(path, sizeof path, "%s/%s", instance, name);
    return open(path, flags | O_CLOEXEC);
}

static void put(const char *name, const char *text) {
    int fd = open_file(name, O_WRONLY);

    if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(NO_TRACEFS, name);
    close(fd);
}

static void open_instance(void) {
    if (access(TRACING "/instances", F_OK) != 0 && mount("tracefs", TRACING, "tracefs", 0, NULL) != 0) {
        fail(NO_TRACEFS, TRACING);
    }
    snprintf(instance, sizeof instance, TRACING "/instances/jobglass_test_%d", (int)getpid());
    if (mkdir(instance, 0700) != 0) {
        instance[0] = '\0';
        fail(NO_TRACEFS, TRACING "/instances");
    }
    put("buffer_size_kb", "8192");
    put("trace_clock", "counter");
    put("events/sched/sched_process_fork/enable", "1");
    put("events/sched/sched_process_exec/enable", "1");
    put("events/sched/sched_process_exit/enable", "1");
}

/* All events that are not in the trace: overwritten, interrupted or refused. */
static unsigned long count_lost(void) {
    char pattern[256], line[128];
    unsigned long lost = 0, value;
    glob_t files;

    snprintf(pattern, sizeof pattern, "%s/per_cpu/cpu*/stats", instance);
    if (glob(pattern, 0, NULL, &files) != 0) fail(FAILED, pattern);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *stats = fopen(files.gl_pathv[i], "r");

        if (stats == NULL) fail(FAILED, files.gl_pathv[i]);
        while (fgets(line, sizeof line, stats) != NULL) {
            if (sscanf(line, "overrun: %lu", &value) == 1 || sscanf(line, "commit overrun: %lu", &value) == 1 ||
                sscanf(line, "dropped events: %lu", &value) == 1) {
                lost += value;
            }
        }
        fclose(stats);
    }
    globfree(&files);
    return lost;
}

/* ---- events ---- */

enum kind { FORK, EXEC, EXIT };

static struct event {
    unsigned long order;
    enum kind kind;
    int self;  /* who was running */
    int other; /* fork: the child; exec: the thread that called it */
} *events;
static size_t event_count, event_room;

static void keep(struct event event) {
    if (event_count == event_room) {
        event_room = event_room == 0 ? 1 << 16 : event_room * 2;
        events = realloc(events, event_room * sizeof *events);
        if (events == NULL) fail(FAILED, "memory");
    }
    events[event_count++] = event;
}

/* The number behind the last `name` of the line; the ones before it may be part of a file's name. */
static int last_number(const char *line, const char *name) {
    const char *found = NULL;

    for (const char *at = line; (at = strstr(at, name)) != NULL; at++) found = at;
    return found == NULL ? -1 : atoi(found + strlen(name));
}

/* "            true-1234    [000] .....    567: sched_process_exec: filename=/bin/true pid=1234 old_pid=1234" */
static int parse(const char *line) {
    static const struct { const char *name, *number; } kinds[] = {
        [FORK] = {": sched_process_fork: ", " child_pid="},
        [EXEC] = {": sched_process_exec: ", " old_pid="},
        [EXIT] = {": sched_process_exit: ", " pid="},
    };

    /* "CPU:0 [LOST 12 EVENTS]": `count_lost` has the sum. */
    if (strncmp(line, "CPU:", 4) == 0) return 1;
    for (enum kind kind = FORK; kind <= EXIT; kind++) {
        const char *name = strstr(line, kinds[kind].name), *order = name;
        struct event event = {0, kind, 0, 0};

        if (name == NULL || strlen(line) <= COMM || line[COMM] != '-') continue;
        while (order > line && order[-1] >= '0' && order[-1] <= '9') order--;
        event.order = strtoul(order, NULL, 10);
        event.self = atoi(line + COMM + 1);
        event.other = last_number(name, kinds[kind].number);
        if (event.other < 0 || event.other >= PID_LIMIT) return 0;
        keep(event);
        return 1;
    }
    return 0;
}

/* Takes the whole lines of `text` and says how many bytes they had. A file's name may hold a line break: what
 * is not an event goes together with the next line. */
static size_t parse_lines(char *text, size_t length) {
    size_t done = 0;
    char *end, *from = text;

    while ((end = memchr(from, '\n', length - (size_t)(from - text))) != NULL) {
        *end = '\0';
        if (parse(text + done)) {
            done = (size_t)(end + 1 - text);
        } else {
            *end = ' ';
        }
        from = end + 1;
    }
    return done;
}

static void read_events(int pipe) {
    static char text[2 * CHUNK];
    static size_t length;
    ssize_t got;

    while ((got = read(pipe, text + length, CHUNK)) > 0) {
        size_t done = parse_lines(text, length += (size_t)got);

        length -= done;
        memmove(text, text + done, length);
        if (length >= CHUNK) {
            errno = EBADMSG;
            fail(FAILED, "trace_pipe");
        }
    }
}

/* ---- the tree ---- */

static int in_order(const void *a, const void *b) {
    unsigned long left = ((const struct event *)a)->order, right = ((const struct event *)b)->order;

    return (left > right) - (left < right);
}

static void replay(pid_t root, unsigned long *execs, unsigned long *forks) {
    static char in_tree[PID_LIMIT];

    in_tree[root] = 1;
    qsort(events, event_count, sizeof *events, in_order);
    for (const struct event *e = events; e < events + event_count; e++) {
        if (e->kind == FORK && in_tree[e->self]) {
            in_tree[e->other] = 1;
            ++*forks;
        } else if (e->kind == EXEC && in_tree[e->other]) {
            /* A thread that calls exec takes over the pid of the leader, which has ended before. */
            in_tree[e->other] = 0;
            in_tree[e->self] = 1;
            ++*execs;
        } else if (e->kind == EXIT) {
            in_tree[e->self] = 0;
        }
    }
}

/* ---- the command ---- */

static pid_t start_held(char **argv, int *gate) {
    int ends[2];
    pid_t child;
    char byte;

    if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0) fail(FAILED, "fork");
    if (child == 0) {
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 1) _exit(FAILED);
        execvp(argv[0], argv);
        fprintf(stderr, "count_execs: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    close(ends[0]);
    *gate = ends[1];
    return child;
}

static int follow(pid_t child, int pipe) {
    int status;

    while (waitpid(child, &status, WNOHANG) == 0) {
        read_events(pipe);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
        if (stop_signal != 0) kill(child, stop_signal);
        stop_signal = 0;
    }
    put("tracing_on", "0");
    read_events(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    unsigned long execs = 0, forks = 0, lost;
    int gate, pipe, status;
    FILE *out;
    pid_t child;

    if (argc < 4 || strcmp(argv[2], "--") != 0) {
        fprintf(stderr, "usage: count_execs OUTFILE -- CMD [ARGS]\n");
        return 64;
    }
    child = start_held(argv + 3, &gate);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    open_instance();
    pipe = open_file("trace_pipe", O_RDONLY | O_NONBLOCK);
    if (pipe < 0 || write(gate, "", 1) != 1) fail(NO_TRACEFS, "trace_pipe");
    status = follow(child, pipe);
    lost = count_lost();
    close(pipe);
    if (rmdir(instance) != 0) fail(FAILED, instance);
    replay(child, &execs, &forks);
    out = fopen(argv[1], "w");
    if (out == NULL || fprintf(out, "execs=%lu forks=%lu overrun=%lu\n", execs, forks, lost) < 0 || fclose(out) != 0) {
        fail(FAILED, argv[1]);
    }
    return status;
}
