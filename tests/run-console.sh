#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `moat run` on a terminal: job control, sizes, line editing, ends. Arguments: names of tests.
cd "$(dirname "$0")/.." || exit 2
exec /usr/bin/python3 tests/console/console.py "$(realpath "${MOAT:-build/moat}")" "$@"
