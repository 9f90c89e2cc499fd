#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Part of `make check-full`: see the runner.
exec "$(dirname "$0")/conformance/run-ltp.sh" "$@"
