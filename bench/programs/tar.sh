#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tar.sh DATA SCRATCH SCALE: packs the files of DATA/tree (10,000 in a full run) into a file.
set -eu
PATH=/usr/bin:/bin
tar -C "$1" --exclude=.git -cf "$2/out.tar" tree
rm "$2/out.tar"
