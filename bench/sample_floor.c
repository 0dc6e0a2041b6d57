/* The floor of sampling: reads stat, statm and io of every process once, and understands nothing.
 *
 * usage: sample_floor REPEAT
 *
 * Prints the CPU time of each pass in microseconds, one per line. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static double cpu_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return 1e6 * (used.ru_utime.tv_sec + used.ru_stime.tv_sec) + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static void pass(void)
{
    static const char *const names[] = {"stat", "statm", "io"};
    static char buffer[4096];
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while ((entry = readdir(proc))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        for (int i = 0; i < 3; i++) {
            char path[300];
            snprintf(path, sizeof(path), "/proc/%s/%s", entry->d_name, names[i]);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0)
                continue;
            if (read(fd, buffer, sizeof(buffer)) < 0)
                perror(path);
            close(fd);
        }
    }
    closedir(proc);
}

int main(int argc, char **argv)
{
    int repeat = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < repeat; i++) {
        double before = cpu_us();
        pass();
        printf("%.0f\n", cpu_us() - before);
    }
    return 0;
}
