#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A static-PIE and a static non-PIE of our own.
# needs: gcc
# build: gcc -O2 -static-pie -fPIE -pthread -o "$TESTBIN/static_pie" "$SRC/image.c"
# build: gcc -O2 -static -no-pie -fno-pie -pthread -o "$TESTBIN/static_nopie" "$SRC/image.c"
# build: gcc -O2 -no-pie -fno-pie -pthread -o "$TESTBIN/dynamic_nopie" "$SRC/image.c"

for kind in static_pie static_nopie dynamic_nopie; do
	echo "$kind"
	"$TESTBIN/$kind" a 'b c' ''
	echo "exit $?"
done
