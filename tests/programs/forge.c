// Sends a message of its own making, as the preload library would, with the present time at an offset.
// usage: forge SOCKET MESSAGE OFFSET
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static unsigned char message[65536];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timespec now;
    if (argc != 4)
        return 2;
    int file = open(argv[2], O_RDONLY);
    ssize_t len = read(file, message, sizeof message);
    size_t offset = strtoul(argv[3], NULL, 10);
    if (len < 0 || offset + 8 > (size_t)len)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned long long time = now.tv_sec * 1000000000ull + now.tv_nsec;
    for (int i = 0; i < 8; i++)
        message[offset + i] = time >> (56 - 8 * i);
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) || send(fd, message, len, 0) != len) {
        perror("forge");
        return 1;
    }
    return 0;
}
