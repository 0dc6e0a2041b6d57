/* What a preloaded library adds to one exec: runs each variant in turn, many rounds, and compares.
 *
 * usage: exec_cost ROUNDS PROG NAME=LIB[:SOCKET]...
 *
 * Each variant is a name and a library to preload (empty for none), with the agent's socket behind a colon.
 * The variants are interleaved in random order, so that whatever else the machine does falls on all of them alike. Prints one
 * line per variant: name, median wall time and mean CPU time in microseconds. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

struct variant {
    const char *name;
    char *env[4];
    double *wall;
    double cpu;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct variant parse(char *text, int rounds)
{
    struct variant v = {.name = text, .wall = calloc(rounds, sizeof(double))};
    char *lib = strchr(text, '=');
    int n = 0;
    *lib++ = 0;
    char *socket = strchr(lib, ':');
    if (socket) {
        *socket++ = 0;
        if (asprintf(&v.env[n++], "JOBGLASS_SOCKET=%s", socket) < 0)
            exit(2);
    }
    if (*lib && asprintf(&v.env[n++], "LD_PRELOAD=%s", lib) < 0)
        exit(2);
    return v;
}

static void run(struct variant *v, int round, char *prog)
{
    char *argv[] = {prog, NULL};
    struct rusage used;
    pid_t pid;
    int status;
    double start = now_us();
    if (posix_spawn(&pid, prog, NULL, NULL, argv, v->env) != 0 || wait4(pid, &status, 0, &used) != pid || status) {
        fprintf(stderr, "exec_cost: %s does not run with %s\n", prog, v->name);
        exit(1);
    }
    v->wall[round] = now_us() - start;
    v->cpu += used.ru_utime.tv_usec + used.ru_stime.tv_usec + 1e6 * (used.ru_utime.tv_sec + used.ru_stime.tv_sec);
}

/* Whatever an agent does after a program falls on the next one, so no variant always follows another. */
static void shuffle(int *order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = rand() % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: exec_cost ROUNDS PROG NAME=LIB[:SOCKET]...\n");
        return 2;
    }
    int rounds = atoi(argv[1]), count = argc - 3;
    struct variant *all = calloc(count, sizeof(*all));
    int *order = calloc(count, sizeof(int));
    for (int i = 0; i < count; i++) {
        all[i] = parse(argv[3 + i], rounds);
        order[i] = i;
    }
    for (int round = 0; round < rounds; round++) {
        shuffle(order, count);
        for (int i = 0; i < count; i++)
            run(&all[order[i]], round, argv[2]);
    }
    for (int i = 0; i < count; i++) {
        qsort(all[i].wall, rounds, sizeof(double), by_value);
        printf("%s %.1f %.1f\n", all[i].name, all[i].wall[rounds / 2], all[i].cpu / rounds);
    }
    return 0;
}
