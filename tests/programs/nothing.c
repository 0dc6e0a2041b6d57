/* Does nothing, successfully: the smallest program, to be linked dynamically, statically or with musl for a
 * storm of executions.
 *
 * usage: nothing */
int main(void) {
    return 0;
}
