/* Puts a program under a system-call filter.
 *
 * usage: seccomp errno PROG [ARGS]   the guest's calls fail with EPERM, then exec of PROG
 *        seccomp kill PROG [ARGS]    the guest's calls kill the process, then exec of PROG
 *        seccomp main_kill           no exec: all but writing and ending kills; writes "ok", returns 13
 *
 * Exit status 64: usage; 65: the filter was refused; 66: PROG cannot be executed. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { USAGE = 64, REFUSED = 65, NOT_EXECUTED = 66, NUMBERS_MAX = 32 };

#ifdef __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#else
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

static const int fail_on[] = {SYS_socket, SYS_connect, SYS_sendmsg, SYS_memfd_create, SYS_process_vm_readv,
#ifdef SYS_readlink
                              SYS_readlink,
#endif
                              SYS_readlinkat, SYS_getrusage, SYS_getcwd, SYS_madvise, SYS_ftruncate, SYS_prctl};
static const int kill_on[] = {SYS_socket, SYS_connect, SYS_sendmsg, SYS_memfd_create, SYS_process_vm_readv, SYS_ppoll};
static const int live_on[] = {SYS_exit, SYS_exit_group, SYS_write, SYS_rt_sigreturn};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define FILTER(array, listed, others) install(array, COUNT(array), listed, others)

/* `listed` answers the numbers given, `others` all the rest. */
static int install(const int *numbers, size_t count, unsigned listed, unsigned others) {
    struct sock_filter code[2 * NUMBERS_MAX + 5] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    struct sock_fprog program = {4, code};

    for (size_t i = 0; i < count; i++) {
        code[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i], 0, 1);
        code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int run(int refused, char **argv) {
    if (refused != 0) return REFUSED;
    execv(argv[0], argv);
    return NOT_EXECUTED;
}

/* Returns, so that destructors run under the filter. */
static int live_on_nothing(void) {
    if (FILTER(live_on, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS) != 0) return REFUSED;
    return write(1, "ok\n", 3) == 3 ? 13 : 1;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "main_kill") == 0) return live_on_nothing();
    if (argc > 2 && strcmp(mode, "errno") == 0) {
        return run(FILTER(fail_on, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW), argv + 2);
    }
    if (argc > 2 && strcmp(mode, "kill") == 0) {
        return run(FILTER(kill_on, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW), argv + 2);
    }
    fprintf(stderr, "usage: seccomp errno|kill PROG [ARGS] | seccomp main_kill\n");
    return USAGE;
}
