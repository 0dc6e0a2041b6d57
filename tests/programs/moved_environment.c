/* A library whose constructor puts another environment in the place of the one the kernel made. */
#include <stdlib.h>

__attribute__((constructor)) static void move(void)
{
    setenv("MOVED_BY_A_CONSTRUCTOR", "1", 1);
}
