/* Starts processes that are expensive to watch. None of them sends a message.
 *
 * usage: attack_processes KIND COUNT [SIZE]
 *
 *   arguments     COUNT programs at a time, each with SIZE bytes of arguments
 *   environment   COUNT programs at a time, each with SIZE bytes of variables that are always kept
 *   jobs          COUNT programs that each claim another job and another rank, with SIZE bytes of arguments
 *   execs         one process that executes a program COUNT times
 *   threads       COUNT threads that end at once
 *   sessions      COUNT programs, each in a session of its own
 *   namespaces    COUNT programs, each in mount and user namespaces of its own
 *   copies        COUNT forked copies that execute nothing, half of them with vfork
 *   names         COUNT programs under names with control characters and bytes that are no text, in the working directory
 *   files         COUNT programs, each from another file in the working directory
 *   titles        COUNT programs that overwrite their arguments and their name with binary zeros and line breaks
 *   stopped       COUNT programs that are traced and stopped at their first instruction
 *   memory        COUNT programs executed from memory that has no path
 *
 * Prints how many were started when all are; those that stay do so until the end of standard input. */
#define _GNU_SOURCE
#include "attack.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { PIECE = 100 * 1024 };

static char self[4096];

static char *filled(const char *name, size_t size) {
    char *text = malloc(strlen(name) + size + 1);
    size_t len = strlen(name);

    memcpy(text, name, len);
    for (size_t i = 0; i < size; i++) text[len + i] = (char)('a' + (int)(i % 26));
    text[len + size] = '\0';
    return text;
}

/* Executes `how` of ourselves. */
static void become(const char *file, const char *how, char *argument, char **environment) {
    char *argv[] = {self, (char *)how, "1", argument, NULL};

    execve(file, argv, environment);
    _exit(66);
}

static char **variables(size_t size) {
    static const char *names[] = {"LOADEDMODULES=", "_LMFILES_=", "APPTAINER_CONTAINER=", "SINGULARITY_NAME=", NULL};
    static char *environment[8];

    for (int i = 0; names[i] != NULL; i++) environment[i] = filled(names[i], size / 4 < PIECE ? size / 4 : PIECE);
    return environment;
}

static char **claims(long number) {
    static char job[64], rank[64], step[64];
    static char *environment[] = {job, rank, step, NULL};

    snprintf(job, sizeof job, "SLURM_JOB_ID=%ld", 1000000 + number);
    snprintf(rank, sizeof rank, "SLURM_PROCID=%ld", number);
    snprintf(step, sizeof step, "SLURM_STEP_ID=%ld", number % 7);
    return environment;
}

static void in_namespaces(void) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) die("unshare");
    become(self, "exit", "namespace", environ);
}

static int copy_of_self(const char *name) {
    int from = open(self, O_RDONLY | O_CLOEXEC), to = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    struct stat meta;
    int made = from >= 0 && to >= 0 && fstat(from, &meta) == 0 &&
               sendfile(to, from, NULL, (size_t)meta.st_size) == meta.st_size;

    close(from);
    close(to);
    return made;
}

static void as_file(long number, int is_strange) {
    static const char *tails[] = {"\x01\x1b[31mred", "\xff\xfe\x80", "line\nbreak", " (deleted)", "quote\"\\", "\xc3\x28"};
    char name[256];

    snprintf(name, sizeof name, "f%ld%s", number, is_strange ? tails[number % 6] : "");
    if (!copy_of_self(name)) die(name);
    become(name, "exit", is_strange ? (char *)tails[number % 6] : "file", environ);
}

static void from_memory(void) {
    int memory = memfd_create("nowhere", 0), from = open(self, O_RDONLY | O_CLOEXEC);
    struct stat meta;
    char path[64];

    if (memory < 0 || fstat(from, &meta) != 0 || sendfile(memory, from, NULL, (size_t)meta.st_size) < 0) _exit(66);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    become(path, "exit", "memory", environ);
}

static void traced(void) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(66);
    become(self, "exit", "stopped", environ);
}

/* What the `number`th process of a kind does. */
static void child(const char *kind, long number, size_t size) {
    if (strcmp(kind, "arguments") == 0) become(self, "stay", filled("", size), environ);
    if (strcmp(kind, "environment") == 0) become(self, "stay", "e", variables(size));
    if (strcmp(kind, "jobs") == 0) become(self, "exit", filled("", size), claims(number));
    if (strcmp(kind, "namespaces") == 0) in_namespaces();
    if (strcmp(kind, "names") == 0) as_file(number, 1);
    if (strcmp(kind, "files") == 0) as_file(number, 0);
    if (strcmp(kind, "titles") == 0) become(self, "title", filled("", 3000), environ);
    if (strcmp(kind, "memory") == 0) from_memory();
    if (strcmp(kind, "stopped") == 0) traced();
    if (strcmp(kind, "sessions") == 0) {
        setsid();
        become(self, "exit", "session", environ);
    }
    _exit(0);
}

static pid_t start(const char *kind, long number, size_t size) {
    pid_t pid = strcmp(kind, "copies") == 0 && number % 2 == 0 ? vfork() : fork();

    if (pid == 0) child(kind, number, size);
    return pid;
}

static void *nothing(void *argument) {
    return argument;
}

static long threads(long count) {
    long started = 0;

    for (long i = 0; i < count; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, nothing, NULL) != 0) continue;
        pthread_join(thread, NULL);
        started++;
    }
    return started;
}

/* The same process, again and again: its number of images is all that grows. */
static int execs(long left) {
    char number[32];
    char *argv[] = {self, "execs", number, NULL};

    if (left <= 1) {
        puts("done");
        return 0;
    }
    snprintf(number, sizeof number, "%ld", left - 1);
    execv(self, argv);
    return 66;
}

static int title(char **argv) {
    memset(argv[3], '\n', strlen(argv[3]) / 2);
    memset(argv[0], 0, strlen(argv[0]));
    prctl(PR_SET_NAME, "\xff\n) R 1 \x1b[31m");
    pause_ms(100);
    return 0;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    long count = argc > 2 ? atol(argv[2]) : 0, started = 0;
    size_t size = argc > 3 ? (size_t)atol(argv[3]) : 0;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    int stays = strcmp(kind, "arguments") == 0 || strcmp(kind, "environment") == 0;

    if (count < 1 || count > 100000 || len < 0) {
        fprintf(stderr, "usage: attack_processes KIND COUNT [SIZE]\n");
        return 64;
    }
    if (strcmp(kind, "exit") == 0) return 0;
    if (strcmp(kind, "linger") == 0) {
        pause_ms(200);
        return 0;
    }
    if (strcmp(kind, "title") == 0) return title(argv);
    if (strcmp(kind, "execs") == 0) return execs(count);
    if (strcmp(kind, "stay") == 0) {
        await_end();
        return 0;
    }
    if (strcmp(kind, "threads") == 0) {
        printf("%ld\n", threads(count));
        return 0;
    }
    for (long i = 0; i < count; i++) {
        pid_t pid = start(kind, i, size);

        if (pid < 0) continue;
        started++;
        /* Programs that end at once come one after the other, so that a limit of processes does not matter. */
        if (!stays && strcmp(kind, "stopped") != 0) waitpid(pid, NULL, 0);
    }
    printf("%ld\n", started);
    fflush(stdout);
    await_end();
    for (int status; (len = wait(&status)) > 0;)
        if (WIFSTOPPED(status)) kill((pid_t)len, SIGKILL);
    return 0;
}
