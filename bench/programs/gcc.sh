#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gcc.sh DATA SCRATCH SCALE: compiles one file of this benchmark with optimisation.
set -eu
PATH=/usr/bin:/bin
export TMPDIR="$2"
gcc -std=gnu17 -O2 -D_GNU_SOURCE -I"$1/c" -c -o "$2/out.o" "$1/c/bench/micro_file.c"
rm "$2/out.o"
