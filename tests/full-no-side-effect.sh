#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/run-no-side-effect.sh on the platforms that it leaves out by itself.
PLATFORMS=${PLATFORMS:-ptrace notify} exec "$(dirname "$0")/run-no-side-effect.sh"
