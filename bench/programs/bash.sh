#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bash.sh DATA SCRATCH SCALE: a shell loop of 1,000 forks (by SCALE per cent).
set -eu
PATH=/usr/bin:/bin
# shellcheck disable=SC2016
bash -c 'for ((i = 0; i < $1; i++)); do (:); done' loop $((1000 * $3 / 100))
