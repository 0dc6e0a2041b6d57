/* A library that does nothing: the floor below which no preload can be. Linked without start files, as the
 * guest is. */
static void begin(void) {}
__attribute__((used, section(".init_array"))) static void (*constructor)(void) = begin;
