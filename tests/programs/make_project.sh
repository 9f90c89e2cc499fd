#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make -j4 of a C project (tests/programs/project), its own test, a rebuild, a clean.
# needs: gcc make

cp -r "$(dirname "${BASH_SOURCE[0]}")/project" "$TMPDIR/project" && cd "$TMPDIR/project" || exit 1
make -j4 2>&1 | sort
ls build
make -j4
make check
sleep 0.1
touch src/value.h
make -j4 -n 2>&1 | sort | wc -l
make -j4 >/dev/null && echo rebuilt
make -q; echo "up to date: $?"
make nothing; echo "nothing: $?"
make -k -j4 broken 2>&1 | sort; echo "broken: ${PIPESTATUS[0]}"
make clean && ls
