/* Built with -fsanitize=address: says hello, and with an argument writes behind the end of its memory.
 *
 * usage: sanitized [overflow] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    char *memory = malloc(8);

    if (memory == NULL) return 66;
    strcpy(memory, "hello");
    puts(memory);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "overflow") == 0) memory[argc + 6] = 'x';
    free(memory);
    return 5;
}
