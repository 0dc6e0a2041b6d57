/* Runs a command under many of a user's subordinate uids, as a container engine may.
 *
 * usage: subordinate FIRST COUNT COMMAND [ARGUMENT...]
 *
 * Makes a user namespace, prints "ready", and waits for a line: by then root has written its uid_map and gid_map. Then
 * COMMAND runs COUNT times, each time as the next uid from FIRST on. Prints how many ended well. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_as(uid_t uid, char **command) {
    int null = open("/dev/null", O_WRONLY);

    dup2(null, 1);
    if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) _exit(66);
    execv(command[0], command);
    _exit(66);
}

int main(int argc, char **argv) {
    long first = argc > 3 ? atol(argv[1]) : 0, count = argc > 3 ? atol(argv[2]) : 0, well = 0;
    char line[8];

    if (count < 1) return 64;
    if (unshare(CLONE_NEWUSER) != 0) return 66;
    puts("ready");
    fflush(stdout);
    if (read(0, line, sizeof line) < 1) return 66;
    for (long i = 0; i < count; i++) {
        int status;
        pid_t pid = fork();

        if (pid == 0) run_as((uid_t)(first + i), argv + 3);
        if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) well++;
    }
    printf("%ld\n", well);
    return 0;
}
