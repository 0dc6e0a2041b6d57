/* What an attacker executes to become root: installed with the set-user-ID bit, it takes root's identity and waits.
 *
 * usage: attack_root MARK */
#define _GNU_SOURCE
#include <poll.h>
#include <unistd.h>

int main(void) {
    if (setresuid(0, 0, 0) != 0) return 66;
    poll(NULL, 0, 600);
    return 0;
}
