#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python.sh DATA SCRATCH SCALE: the start of an interpreter that loads a few modules.
set -eu
PATH=/usr/bin:/bin
python3 -I -c 'import json, re, subprocess, tempfile'
