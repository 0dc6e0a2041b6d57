// Maps the beginning of a file to execute it, says so, and waits for the end of its input.
// usage: map_exec FILE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char byte;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
        perror("map_exec");
        return 1;
    }
    puts("mapped");
    fflush(stdout);
    return read(0, &byte, 1) < 0;
}
