#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A static Go program: raw syscalls, goroutines, SIGURG preemption, timers, children.
# needs: go
# build: [ "$TESTBIN/go_static" -nt "$SRC/go_static.go" ] || CGO_ENABLED=0 GOCACHE=$TESTBIN/gocache GO111MODULE=off go build -o "$TESTBIN/go_static" "$SRC/go_static.go"

cd "$TMPDIR" || exit 1
"$TESTBIN/go_static" one two
echo "exit $?"
GOMAXPROCS=1 "$TESTBIN/go_static" preempt
echo "exit $?"
GOGC=5 "$TESTBIN/go_static" memory
echo "exit $?"
"$TESTBIN/go_static" panic 2>&1 | head -n 1
