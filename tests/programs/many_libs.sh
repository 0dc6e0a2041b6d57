#!/bin/sh
# Makes many tiny shared libraries, each with a build-id of its own, and a program linked against all of them.
#
# usage: many_libs.sh DIR N [CC]     makes DIR/libmany_1.so to DIR/libmany_N.so and DIR/many, which returns 0
set -eu

if [ $# -lt 2 ]; then
    echo "usage: many_libs.sh DIR N [CC]" >&2
    exit 64
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
count=$2
cc=${3:-cc}
cd "$dir"

echo 'int NAME(void) { return NUMBER; }' >many_lib.c
# A library takes about 20 ms, nearly all of it the compiler's own start.
# shellcheck disable=SC2086 # the compiler may come with options
seq "$count" | xargs -P "$(nproc)" -I @ $cc -O0 -g0 -fPIC -shared -nostdlib -DNAME=many_@ -DNUMBER=@ \
    -Wl,--build-id -Wl,-soname,libmany_@.so -o libmany_@.so many_lib.c

{
    seq "$count" | sed 's/.*/int many_&(void);/'
    echo 'int main(void) { long sum = 0;'
    seq "$count" | sed 's/.*/sum += many_&();/'
    echo "return sum == $count * ($count + 1L) / 2 ? 0 : 1; }"
} >many.c
# shellcheck disable=SC2046,SC2086 # one argument per library
$cc -O0 -Wl,--build-id -Wl,-rpath,"$dir" -L. -o many many.c $(seq "$count" | sed 's/^/-lmany_/')
rm many_lib.c many.c
