#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The races of tests/hostile/attacks.sh at length: 10,000 rounds each. Environment: as of run-hostile.sh; ROUNDS.
cd "$(dirname "$0")/.." || exit 1
ROUNDS=${ROUNDS:-10000} TIMEOUT=${TIMEOUT:-1800} exec tests/run-hostile.sh attacks
