/* Uses a known amount of each resource, whatever else the machine does.
 *
 * usage: consume [cores=N] [cpu=SECONDS] [memory=MB] [write=MB] [file=PATH] [children=N] [before_cpu=PATH] [at_end=PATH]
 *
 * Each of `cores` threads uses `cpu` seconds of CPU time by its own clock. `memory` is touched and held to the end. `write`
 * goes to `file` and to the disk. With `children`, that many short-lived children share the work of writing. Before it uses
 * CPU time, and before its end, it waits until whoever holds the pipe PATH open for writing closes it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds = 0;

static double option(int argc, char **argv, const char *name, double otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return atof(argv[i] + length + 1);
    return otherwise;
}

static const char *text(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

static void *burn(void *unused)
{
    (void)unused;
    struct timespec t;
    do {
        for (volatile int i = 0; i < 100000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec + t.tv_nsec / 1e9 < cpu_seconds);
    return NULL;
}

static void write_megabytes(const char *path, int flags, long megabytes)
{
    static char block[1 << 20];
    memset(block, 'x', sizeof(block));
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);
    for (long i = 0; i < megabytes; i++)
        if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block)) {
            perror("consume: write");
            exit(1);
        }
    if (fsync(fd) < 0) {
        perror("consume: fsync");
        exit(1);
    }
    close(fd);
}

/* Opening waits for a writer, and reading for its end. */
static void wait_at(const char *path)
{
    char byte;
    if (*path == '\0')
        return;
    int fd = open(path, O_RDONLY);
    while (fd >= 0 && read(fd, &byte, 1) > 0)
        ;
    close(fd);
}

int main(int argc, char **argv)
{
    int cores = option(argc, argv, "cores", 1);
    long memory = option(argc, argv, "memory", 0), megabytes = option(argc, argv, "write", 0);
    int children = option(argc, argv, "children", 0);
    const char *file = text(argc, argv, "file", "consume.out");
    cpu_seconds = option(argc, argv, "cpu", 0);
    char *held = malloc(memory << 20);
    if (memory && held)
        memset(held, 'y', memory << 20);
    for (int i = 0; i < children; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            write_megabytes(file, O_APPEND, megabytes / children);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    if (megabytes && !children)
        write_megabytes(file, O_TRUNC, megabytes);
    wait_at(text(argc, argv, "before_cpu", ""));
    pthread_t *threads = calloc(cores, sizeof(*threads));
    if (cpu_seconds > 0)
        for (int i = 1; i < cores; i++)
            pthread_create(&threads[i], NULL, burn, NULL);
    if (cpu_seconds > 0)
        burn(NULL);
    for (int i = 1; i < cores && cpu_seconds > 0; i++)
        pthread_join(threads[i], NULL);
    wait_at(text(argc, argv, "at_end", ""));
    unlink(file);
    return held && memory && held[0] != 'y';
}
