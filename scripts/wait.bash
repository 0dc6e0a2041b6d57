# Waiting for a condition: the only place where a script pauses.

# wait_until SECONDS COMMAND...: tries COMMAND, without its output, until it succeeds; fails if it did not in that time.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || return 1
        sleep 0.1
    done
}
