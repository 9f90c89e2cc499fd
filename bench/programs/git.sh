#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# git.sh DATA SCRATCH SCALE: git status on the files of DATA/tree (10,000 in a full run).
#
# A sandbox may show other inode and device numbers than those in the index; git would read every file
# again. Comparing size and mtime only makes all targets do the same work.
set -eu
PATH=/usr/bin:/bin
export GIT_OPTIONAL_LOCKS=0 HOME="$2"
git -c safe.directory='*' -c core.checkStat=minimal -c core.trustctime=false -c core.fsmonitor=false \
	-C "$1/tree" status --porcelain >/dev/null
