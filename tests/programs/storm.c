/* Executes programs as fast as the machine can.
 *
 * usage: storm TOTAL PARALLEL PROG1 [PROG2 ...]
 *
 * TOTAL children in all, at most PARALLEL at a time, the programs in turn, each without arguments and with
 * our environment. Prints "execs=N failed=M seconds=S": N were executed, M could not be or did not exit 0. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static long execs, failed, running;

static double now(void) {
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void reap_one(void) {
    int status;

    if (wait(&status) < 0) return;
    running--;
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* With few process ids there may be none left until somebody has ended. */
static void start_one(char *program) {
    char *argv[] = {program, NULL};
    pid_t child;
    int error;

    while ((error = posix_spawn(&child, program, NULL, NULL, argv, environ)) == EAGAIN) {
        if (running > 0) {
            reap_one();
        } else {
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
    }
    execs += error == 0;
    running += error == 0;
    failed += error != 0;
}

int main(int argc, char **argv) {
    long total = argc > 3 ? atol(argv[1]) : 0, parallel = argc > 3 ? atol(argv[2]) : 0;
    double start = now();

    if (total < 1 || parallel < 1) {
        fprintf(stderr, "usage: storm TOTAL PARALLEL PROG1 [PROG2 ...]\n");
        return 64;
    }
    for (long i = 0; i < total; i++) {
        while (running >= parallel) reap_one();
        start_one(argv[3 + i % (argc - 3)]);
    }
    while (running > 0) reap_one();
    printf("execs=%ld failed=%ld seconds=%.3f\n", execs, failed, now() - start);
    return failed == 0 ? 0 : 1;
}
