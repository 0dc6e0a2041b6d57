/* Runs and ends in every way a program can, one named mode each.
 *
 * usage: survive MODE [ARGS]     without arguments: lists the modes
 *
 * Exit status 64: unknown mode or missing argument; 65: not permitted; 66: a call of this file failed.
 * -DNO_DLOPEN leaves out those that begin with `late`, which a static executable cannot do. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifndef NO_DLOPEN
#include <dlfcn.h>
#endif

enum { USAGE = 64, NOT_PERMITTED = 65, FAILED = 66, THREADS_MAX = 256 };

extern char **environ;

/* ---- what the modes are made of ---- */

static int failed(const char *what) {
    fprintf(stderr, "survive: %s: %s\n", what, strerror(errno));
    return FAILED;
}

static void sleep_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static double clock_ms(clockid_t clock) {
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Asks the time seldom, so that nearly all of it is user time. The clock of a process goes on over exec, so
 * only differences count. */
static void burn_ms(clockid_t clock, double ms) {
    double start = clock_ms(clock);

    while (clock_ms(clock) - start < ms) {
        for (volatile int i = 0; i < 50000; i++) {
        }
    }
}

static int run(char **argv) {
    execv(argv[0], argv);
    return failed(argv[0]);
}

static int wait_for(pid_t child) {
    int status;

    if (child < 0) return failed("child");
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return failed("waitpid");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The default action, also where a shell started us with the signal ignored or blocked. */
static int die_of(int number) {
    sigset_t one;

    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    return FAILED;
}

static int wait_for_ever(void) {
    while (pause() < 0) {
    }
    return FAILED;
}

static int in_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, argument) != 0) return failed("pthread_create");
    return wait_for_ever();
}

/* ---- ends of a single process ---- */

static int mode_return(char **argv) {
    (void)argv;
    return 0;
}

static int mode_exit3(char **argv) {
    (void)argv;
    exit(3);
}

static int mode__exit4(char **argv) {
    (void)argv;
    _exit(4);
}

static int mode_abort(char **argv) {
    (void)argv;
    abort();
}

static int mode_segv(char **argv) {
    int *volatile nowhere = NULL;

    (void)argv;
    *(volatile int *)nowhere = 1;
    return FAILED;
}

static int mode_term(char **argv) {
    (void)argv;
    return die_of(SIGTERM);
}

static int mode_kill(char **argv) {
    (void)argv;
    raise(SIGKILL);
    return FAILED;
}

static int mode_int(char **argv) {
    (void)argv;
    return die_of(SIGINT);
}

static int mode_hang(char **argv) {
    (void)argv;
    return wait_for_ever();
}

static int mode_sleep(char **argv) {
    sleep_ms(atol(argv[0]));
    return 0;
}

static int read_to_end(int fd) {
    char byte;
    ssize_t done;

    while ((done = read(fd, &byte, 1)) != 0) {
        if (done < 0 && errno != EINTR) return failed("read");
    }
    return 0;
}

/* Lives until whoever started it closes the other end of its standard input. */
static int mode_until_eof(char **argv) {
    (void)argv;
    return read_to_end(0);
}

/* Lives until whoever opens this pipe for writing closes it again. */
static int mode_until_eof_of(char **argv) {
    int fd = open(argv[0], O_RDONLY);

    return fd < 0 ? failed(argv[0]) : read_to_end(fd);
}

/* ---- exec and threads ---- */

static void *thread_run(void *argv) {
    exit(run(argv));
}

static int mode_exec_thread(char **argv) {
    return in_thread(thread_run, argv);
}

static void *thread_exit5(void *unused) {
    sleep_ms(50);
    exit(5);
    return unused;
}

static int mode_pthread_exit(char **argv) {
    pthread_t thread;

    (void)argv;
    if (pthread_create(&thread, NULL, thread_exit5, NULL) != 0) return failed("pthread_create");
    pthread_exit(NULL);
}

static void *thread_exit6(void *unused) {
    exit(6);
    return unused;
}

static int mode_thread_exit6(char **argv) {
    (void)argv;
    return in_thread(thread_exit6, NULL);
}

static void *thread_burn(void *unused) {
    burn_ms(CLOCK_THREAD_CPUTIME_ID, 20);
    return unused;
}

static int mode_multi(char **argv) {
    pthread_t threads[THREADS_MAX];
    int wanted = atoi(argv[0]);

    if (wanted < 1 || wanted > THREADS_MAX) return USAGE;
    for (int i = 0; i < wanted; i++) {
        if (pthread_create(&threads[i], NULL, thread_burn, NULL) != 0) return failed("pthread_create");
    }
    for (int i = 0; i < wanted; i++) pthread_join(threads[i], NULL);
    return 0;
}

/* ---- children ---- */

static int mode_fork(char **argv) {
    pid_t child = fork();

    (void)argv;
    if (child == 0) {
        sleep_ms(30);
        exit(7);
    }
    return wait_for(child) == 7 ? 0 : FAILED;
}

static int mode_fork__exit(char **argv) {
    pid_t child = fork();

    (void)argv;
    if (child == 0) _exit(8);
    return wait_for(child) == 8 ? 0 : FAILED;
}

static int mode_vfork_exec(char **argv) {
    pid_t child = vfork();

    if (child == 0) {
        execv(argv[0], argv);
        _exit(FAILED);
    }
    return wait_for(child);
}

static int mode_spawn(char **argv) {
    pid_t child;

    errno = posix_spawn(&child, argv[0], NULL, NULL, argv, environ);
    return errno != 0 ? failed(argv[0]) : wait_for(child);
}

static int mode_after_eof(char **argv) {
    int failure = read_to_end(0);

    return failure != 0 ? failure : mode_spawn(argv);
}

static int daemon_body(const char *pid_file) {
    FILE *out = fopen(pid_file, "w");

    if (out == NULL) return failed(pid_file);
    fprintf(out, "%d\n", (int)getpid());
    fclose(out);
    sleep_ms(100);
    return 9;
}

static int mode_daemon(char **argv) {
    pid_t child = fork();

    if (child == 0) {
        setsid();
        if (fork() == 0) exit(daemon_body(argv[0]));
        _exit(0);
    }
    return wait_for(child);
}

/* ---- what a guest could stumble over ---- */

static int mode_closefds(char **argv) {
    (void)argv;
    for (int fd = 0; fd < 1024; fd++) close(fd);
    exit(10);
}

/* What Redis did to get at the room of its title: the array is used after clearenv(), which is only right as
 * long as nobody moved the environment to the heap before. */
static int mode_clearenv(char **argv) {
    char **saved = environ;

    (void)argv;
    clearenv();
    for (char **at = saved; *at != NULL; at++) {
        char *variable = strdup(*at), *equals = variable == NULL ? NULL : strchr(variable, '=');

        if (equals == NULL) return FAILED;
        *equals = '\0';
        if (setenv(variable, equals + 1, 1) != 0) return failed("setenv");
        if (getenv(variable) == NULL || strcmp(getenv(variable), equals + 1) != 0) return FAILED;
        free(variable);
    }
    return 0;
}

static int mode_closed_stderr(char **argv) {
    (void)argv;
    close(2);
    fprintf(stderr, "nobody reads this\n");
    return 0;
}

static int mode_chroot(char **argv) {
    if (chroot(argv[0]) != 0) return errno == EPERM ? NOT_PERMITTED : failed(argv[0]);
    if (chdir("/") != 0) return failed("/");
    exit(11);
}

static int mode_unlink_self(char **argv) {
    char path[8192];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

    (void)argv;
    if (length < 0) return failed("/proc/self/exe");
    path[length] = '\0';
    if (unlink(path) != 0) return failed(path);
    sleep_ms(50);
    exit(12);
}

#ifndef NO_DLOPEN
static void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW);

    if (library == NULL) {
        fprintf(stderr, "survive: %s\n", dlerror());
        exit(FAILED);
    }
    return library;
}

static int mode_late(char **argv) {
    for (; *argv != NULL; argv++) load(*argv);
    return 0;
}

/* Ends without a word: no destructor runs. */
static int mode_late_killed(char **argv) {
    mode_late(argv);
    raise(SIGKILL);
    return FAILED;
}

static int mode_late__exit(char **argv) {
    mode_late(argv);
    _exit(0);
}

static int mode_late_close(char **argv) {
    return dlclose(load(argv[0])) == 0 ? 0 : FAILED;
}
#endif

/* ---- use of resources ---- */

/* Maps a file to execute it, again and again. */
static int mode_remap(char **argv) {
    int fd = open(argv[0], O_RDONLY);

    for (int n = atoi(argv[1]); n > 0; n--) {
        void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

        if (at == MAP_FAILED || munmap(at, 4096) != 0) return failed(argv[0]);
    }
    return 0;
}

static int mode_burn(char **argv) {
    burn_ms(CLOCK_PROCESS_CPUTIME_ID, atof(argv[0]));
    return argv[1] == NULL ? 0 : run(argv + 1);
}

static int mode_grow(char **argv) {
    size_t bytes = strtoul(argv[0], NULL, 10) << 20;
    volatile char *memory = malloc(bytes);

    if (memory == NULL) return failed("malloc");
    for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
    return argv[1] == NULL ? 0 : run(argv + 1);
}

static int mode_write_file(char **argv) {
    static char block[65536];
    long left = atol(argv[1]);
    int fd = open(argv[0], O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0) return failed(argv[0]);
    while (left > 0) {
        ssize_t done = write(fd, block, left < (long)sizeof block ? (size_t)left : sizeof block);

        if (done < 0) return failed("write");
        left -= done;
    }
    return fsync(fd) == 0 ? 0 : failed("fsync");
}

/* ---- the table ---- */

static const struct mode {
    const char *name;
    int (*function)(char **argv);
    int needs; /* arguments it cannot do without */
    const char *arguments;
} modes[] = {
    {"return", mode_return, 0, ""},
    {"exit3", mode_exit3, 0, ""},
    {"_exit4", mode__exit4, 0, ""},
    {"abort", mode_abort, 0, ""},
    {"segv", mode_segv, 0, ""},
    {"term", mode_term, 0, ""},
    {"kill", mode_kill, 0, ""},
    {"int", mode_int, 0, ""},
    {"hang", mode_hang, 0, ""},
    {"sleep", mode_sleep, 1, " MS"},
    {"until_eof", mode_until_eof, 0, ""},
    {"until_eof_of", mode_until_eof_of, 1, " PIPE"},
    {"exec", run, 1, " PROG [ARGS]"},
    {"exec_thread", mode_exec_thread, 1, " PROG [ARGS]"},
    {"pthread_exit", mode_pthread_exit, 0, ""},
    {"thread_exit6", mode_thread_exit6, 0, ""},
    {"multi", mode_multi, 1, " THREADS"},
    {"fork", mode_fork, 0, ""},
    {"fork__exit", mode_fork__exit, 0, ""},
    {"vfork_exec", mode_vfork_exec, 1, " PROG [ARGS]"},
    {"spawn", mode_spawn, 1, " PROG [ARGS]"},
    {"after_eof", mode_after_eof, 1, " PROG [ARGS]"},
    {"daemon", mode_daemon, 1, " PID_FILE"},
    {"closefds", mode_closefds, 0, ""},
    {"clearenv", mode_clearenv, 0, ""},
    {"closed_stderr", mode_closed_stderr, 0, ""},
    {"chroot", mode_chroot, 1, " DIR"},
    {"unlink_self", mode_unlink_self, 0, ""},
#ifndef NO_DLOPEN
    {"late", mode_late, 1, " LIB..."},
    {"late_killed", mode_late_killed, 1, " LIB..."},
    {"late__exit", mode_late__exit, 1, " LIB..."},
    {"late_close", mode_late_close, 1, " LIB"},
#endif
    {"remap", mode_remap, 2, " FILE TIMES"},
    {"burn", mode_burn, 1, " MS [PROG ARGS]"},
    {"grow", mode_grow, 1, " MB [PROG ARGS]"},
    {"write_file", mode_write_file, 2, " PATH BYTES"},
};

int main(int argc, char **argv) {
    const struct mode *end = modes + sizeof modes / sizeof modes[0];

    for (const struct mode *mode = modes; mode < end; mode++) {
        if (argc < 2) {
            printf("%s%s\n", mode->name, mode->arguments);
        } else if (strcmp(argv[1], mode->name) == 0) {
            return argc - 2 < mode->needs ? USAGE : mode->function(argv + 2);
        }
    }
    return argc < 2 ? 0 : USAGE;
}
