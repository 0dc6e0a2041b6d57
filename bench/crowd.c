/* Starts N programs that sleep, says so, and waits to be ended; they end with it.
 *
 * usage: crowd N */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < count; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execl("/bin/sleep", "sleep", "infinity", (char *)NULL);
            _exit(127);
        }
        if (pid < 0) {
            perror("crowd: fork");
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
