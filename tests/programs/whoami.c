/* Prints what a program can see of its own process on entry to main(), without addresses, process ids and
 * other things that change from run to run: two runs that should be alike can be compared with diff.
 *
 * usage: whoami [ARGS]     (ARGS are only printed) */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SIGNALS = 64, KERNEL_SET = 8 };

/* What the kernel itself takes: the C library's sigaction() refuses signals 32 and 33. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

/* One line, whatever bytes the text holds. */
static void print_text(const char *label, long index, const char *text) {
    printf("%s", label);
    if (index >= 0) printf(" %ld", index);
    printf(": ");
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        printf(isprint(byte) && byte != '\\' ? "%c" : "\\x%02x", byte);
    }
    printf("\n");
}

/* In order, but without numbers: one variable more is one line more. */
static void print_list(const char *label, char **list) {
    for (; *list != NULL; list++) print_text(label, -1, *list);
}

static void print_descriptor(int fd, const char *name) {
    char link[300], target[4096];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%s", name);
    length = readlink(link, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    if (strncmp(target, "pipe:[", 6) == 0 || strncmp(target, "socket:[", 8) == 0) *strchr(target, ':') = '\0';
    print_text("descriptor", fd, target);
    printf("descriptor %d: flags %#x, status %#x\n", fd, fcntl(fd, F_GETFD), fcntl(fd, F_GETFL));
}

static void print_descriptors(void) {
    DIR *list = opendir("/proc/self/fd");

    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(list)) {
            print_descriptor(atoi(entry->d_name), entry->d_name);
        }
    }
    if (list != NULL) closedir(list);
}

static void print_threads(void) {
    DIR *list = opendir("/proc/self/task");
    int count = 0;

    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) count += entry->d_name[0] != '.';
    if (list != NULL) closedir(list);
    printf("threads: %d\n", count);
    printf("children: %s\n", waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? "none" : "some");
}

static void print_signals(void) {
    unsigned long blocked = 0, pending = 0;
    stack_t stack = {0};

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, KERNEL_SET);
    syscall(SYS_rt_sigpending, &pending, KERNEL_SET);
    sigaltstack(NULL, &stack);
    printf("signals: blocked %#lx, pending %#lx, stack flags %#x\n", blocked, pending, stack.ss_flags);
    for (int number = 1; number <= SIGNALS; number++) {
        struct kernel_action action = {0};

        syscall(SYS_rt_sigaction, number, NULL, &action, KERNEL_SET);
        printf("signal %d: %s, flags %#lx, mask %#lx\n", number,
               action.handler == SIG_DFL   ? "default"
               : action.handler == SIG_IGN ? "ignore"
                                           : "handler",
               action.flags, action.mask);
    }
}

static void print_limits(void) {
    for (int which = 0; which < RLIMIT_NLIMITS; which++) {
        struct rlimit limit = {0, 0};

        getrlimit(which, &limit);
        printf("limit %d: %llx %llx\n", which, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    }
}

static void print_timers(void) {
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        struct itimerval timer = {0};

        getitimer(which, &timer);
        printf("timer %d: %s\n", which, timer.it_value.tv_sec || timer.it_value.tv_usec ? "set" : "unset");
    }
}

static void print_process(void) {
    char path[4096], name[17] = "";
    mode_t mask = umask(0);
    cpu_set_t cpus;
    int death = 0, reaper = 0;

    umask(mask);
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    prctl(PR_GET_PDEATHSIG, &death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    prctl(PR_GET_NAME, name);
    print_text("cwd", -1, getcwd(path, sizeof path) == NULL ? "?" : path);
    print_text("comm", -1, name);
    printf("ids: %d %d %d %d\n", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid());
    printf("umask: %03o\n", (unsigned)mask);
    printf("nice: %d, policy %d, cpus %d\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0), CPU_COUNT(&cpus));
    printf("personality: %#x\n", (unsigned)personality(0xffffffff));
    printf("dumpable: %d\n", prctl(PR_GET_DUMPABLE));
    printf("no new privileges: %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    printf("seccomp: %d\n", prctl(PR_GET_SECCOMP));
    printf("timer slack: %d\n", prctl(PR_GET_TIMERSLACK));
    printf("keep capabilities: %d, death signal: %d, reaper: %d\n", prctl(PR_GET_KEEPCAPS), death, reaper);
    printf("secure execution: %lu\n", getauxval(AT_SECURE));
}

/* The sticky exception flags tell of arithmetic done before main(). */
static void print_arithmetic(void) {
    printf("rounding: %d, exceptions raised: %#x\n", fegetround(), fetestexcept(FE_ALL_EXCEPT));
#ifdef __GLIBC__
    printf("exceptions trapped: %#x\n", fegetexcept());
#endif
#ifdef __x86_64__
    unsigned short control;

    __asm__ volatile("fnstcw %0" : "=m"(control));
    printf("x87 control: %#x, mxcsr: %#x\n", control, __builtin_ia32_stmxcsr());
#endif
}

static void print_library_state(void) {
    printf("locale: %s\n", setlocale(LC_ALL, NULL));
    for (int i = 0; i < 3; i++) printf("rand %d: %d\n", i, rand());
    for (int i = 0; i < 3; i++) printf("random %d: %ld\n", i, random());
}

int main(int argc, char **argv) {
    int number = errno;

    print_arithmetic();
    printf("errno: %d\nargc: %d\n", number, argc);
    print_list("argument", argv);
    print_list("environment", environ);
    print_descriptors();
    print_signals();
    print_threads();
    print_process();
    print_limits();
    print_timers();
    print_library_state();
    return 0;
}
