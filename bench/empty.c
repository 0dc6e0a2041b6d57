/* A library that does nothing, without even the start files: the floor below which no preload can be. */
static void begin(void) {}
__attribute__((used, section(".init_array"))) static void (*constructor)(void) = begin;
