#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# musl-built programs: static, and dynamic with musl's own interpreter.
# needs: musl-gcc
# build: musl-gcc -O2 -static -o "$TESTBIN/musl_static" "$SRC/image.c"
# build: musl-gcc -O2 -o "$TESTBIN/musl_dynamic" "$SRC/image.c"

for kind in musl_static musl_dynamic; do
	echo "$kind"
	"$TESTBIN/$kind" a 'b c' ''
	echo "exit $?"
done
