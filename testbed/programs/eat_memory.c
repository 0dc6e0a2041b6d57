/* Touches memory, 10 MB every 20 ms, up to the megabytes given, and then stays
 * for a second: long enough for a sampler to see it, and for the kernel's
 * out-of-memory killer to end it where a limit is in the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_MB = 10, CHUNK = CHUNK_MB * 1024 * 1024 };

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 0;

    if (wanted <= 0) {
        fprintf(stderr, "usage: eat_memory MEGABYTES\n");
        return 2;
    }
    for (int have = 0; have < wanted; have += CHUNK_MB) {
        char *chunk = malloc(CHUNK);
        if (chunk == NULL) {
            perror("malloc");
            return 1;
        }
        memset(chunk, 1, CHUNK);
        usleep(20000);
    }
    printf("have %d MB\n", wanted);
    fflush(stdout);
    sleep(1);
    return 0;
}
