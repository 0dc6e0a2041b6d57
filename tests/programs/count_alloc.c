/* A second preload library that counts what "libjobglass" asks of the C library: nothing, it is hoped.
 *
 * usage: LD_PRELOAD=".../libjobglass.so .../count_alloc.so" COUNT_ALLOC_FILE=F PROG
 *
 * At the end of PROG the file holds, one per line: allocations=N (heap functions called by an object with
 * "libjobglass" in its path), NAME=N for each of the other functions below, calls=N (by anybody; not 0, or
 * else this library saw nothing) and lost=N (calls for whose caller there was no room).
 * It must come behind libjobglass.so in LD_PRELOAD: then its destructor runs after that one's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first HEAP_FUNCTIONS of these count as allocations. */
enum function { MALLOC, CALLOC, REALLOC, FREE, POSIX_MEMALIGN, ALIGNED_ALLOC, HEAP_FUNCTIONS,
    SETENV = HEAP_FUNCTIONS, PUTENV, UNSETENV, SIGACTION, SIGNAL, SRAND, SRANDOM, OPEN, SOCKET, PTHREAD_CREATE, FORK,
    FUNCTIONS };

static const char *const names[FUNCTIONS] = {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc",
    "setenv", "putenv", "unsetenv", "sigaction", "signal", "srand", "srandom", "open", "socket", "pthread_create",
    "fork"};

/* ---- who called what: an open hash table of return addresses ---- */

enum { CALLERS = 65536 };

static struct caller {
    atomic_uintptr_t address;
    atomic_ulong calls[FUNCTIONS];
} callers[CALLERS];
static atomic_ulong calls, lost;

static void count(enum function function, void *from) {
    uintptr_t address = (uintptr_t)from;
    size_t at = address * 0x9e3779b97f4a7c15u >> 48;

    calls++;
    for (int tries = 0; tries < CALLERS; tries++, at = (at + 1) % CALLERS) {
        uintptr_t there = 0;

        if (atomic_compare_exchange_strong(&callers[at].address, &there, address) || there == address) {
            callers[at].calls[function]++;
            return;
        }
    }
    lost++;
}

/* ---- the real functions; dlsym() may allocate before it has found the first ---- */

static void *found[FUNCTIONS];
static _Atomic int searching;
static _Alignas(16) char early[65536];
static atomic_size_t early_used;

static void *real(enum function function) {
    if (found[function] == NULL) {
        searching++;
        found[function] = dlsym(RTLD_NEXT, names[function]);
        searching--;
    }
    return found[function];
}

static void *early_alloc(size_t size) {
    size_t at = atomic_fetch_add(&early_used, (size + 15) / 16 * 16);

    return at + size <= sizeof early ? early + at : NULL;
}

static int is_early(const void *memory) {
    return (uintptr_t)memory - (uintptr_t)early < sizeof early;
}

#define REAL(function, type) ((type)real(function))
#define COUNT(function) count(function, __builtin_return_address(0))

void *malloc(size_t size) {
    COUNT(MALLOC);
    return searching ? early_alloc(size) : REAL(MALLOC, void *(*)(size_t))(size);
}

void *calloc(size_t number, size_t size) {
    COUNT(CALLOC);
    return searching ? early_alloc(number * size) : REAL(CALLOC, void *(*)(size_t, size_t))(number, size);
}

/* How much of an early block was asked for is not known: the copy takes what lies behind it along. */
static void *realloc_early(void *old, size_t size) {
    void *memory = searching ? early_alloc(size) : REAL(MALLOC, void *(*)(size_t))(size);
    size_t left = old == NULL ? 0 : (size_t)(early + sizeof early - (char *)old);

    if (memory != NULL && old != NULL) memcpy(memory, old, size < left ? size : left);
    return memory;
}

void *realloc(void *old, size_t size) {
    COUNT(REALLOC);
    if (searching || is_early(old)) return realloc_early(old, size);
    return REAL(REALLOC, void *(*)(void *, size_t))(old, size);
}

void free(void *memory) {
    COUNT(FREE);
    if (memory != NULL && !is_early(memory)) REAL(FREE, void (*)(void *))(memory);
}

int posix_memalign(void **memory, size_t align, size_t size) {
    COUNT(POSIX_MEMALIGN);
    return REAL(POSIX_MEMALIGN, int (*)(void **, size_t, size_t))(memory, align, size);
}

void *aligned_alloc(size_t align, size_t size) {
    COUNT(ALIGNED_ALLOC);
    return REAL(ALIGNED_ALLOC, void *(*)(size_t, size_t))(align, size);
}

int setenv(const char *name, const char *value, int replace) {
    COUNT(SETENV);
    return REAL(SETENV, int (*)(const char *, const char *, int))(name, value, replace);
}

int putenv(char *variable) {
    COUNT(PUTENV);
    return REAL(PUTENV, int (*)(char *))(variable);
}

int unsetenv(const char *name) {
    COUNT(UNSETENV);
    return REAL(UNSETENV, int (*)(const char *))(name);
}

int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    COUNT(SIGACTION);
    return REAL(SIGACTION, int (*)(int, const struct sigaction *, struct sigaction *))(number, new, old);
}

sighandler_t signal(int number, sighandler_t handler) {
    COUNT(SIGNAL);
    return REAL(SIGNAL, sighandler_t(*)(int, sighandler_t))(number, handler);
}

void srand(unsigned seed) {
    COUNT(SRAND);
    REAL(SRAND, void (*)(unsigned))(seed);
}

void srandom(unsigned seed) {
    COUNT(SRANDOM);
    REAL(SRANDOM, void (*)(unsigned))(seed);
}

int open(const char *path, int flags, ...) {
    va_list rest;

    COUNT(OPEN);
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return REAL(OPEN, int (*)(const char *, int, ...))(path, flags, mode);
}

int socket(int domain, int type, int protocol) {
    COUNT(SOCKET);
    return REAL(SOCKET, int (*)(int, int, int))(domain, type, protocol);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument) {
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    COUNT(PTHREAD_CREATE);
    return REAL(PTHREAD_CREATE, create *)(thread, how, body, argument);
}

pid_t fork(void) {
    COUNT(FORK);
    return REAL(FORK, pid_t(*)(void))();
}

/* ---- the report ---- */

static void sum_of_guest(unsigned long sums[FUNCTIONS]) {
    for (int i = 0; i < CALLERS; i++) {
        Dl_info info;

        if (callers[i].address == 0 || dladdr((void *)callers[i].address, &info) == 0) continue;
        if (info.dli_fname == NULL || strstr(info.dli_fname, "libjobglass") == NULL) continue;
        for (int f = 0; f < FUNCTIONS; f++) sums[f] += callers[i].calls[f];
    }
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("COUNT_ALLOC_FILE");
    unsigned long sums[FUNCTIONS] = {0}, allocations = 0;
    char text[1024];
    int length, fd;

    if (path == NULL) return;
    sum_of_guest(sums);
    for (int f = 0; f < HEAP_FUNCTIONS; f++) allocations += sums[f];
    length = snprintf(text, sizeof text, "allocations=%lu\n", allocations);
    for (int f = HEAP_FUNCTIONS; f < FUNCTIONS; f++) {
        length += snprintf(text + length, sizeof text - length, "%s=%lu\n", names[f], sums[f]);
    }
    length += snprintf(text + length, sizeof text - length, "calls=%lu\nlost=%lu\n", calls, lost);
    fd = openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, text, length) != length) abort();
    close(fd);
}
