#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# find over /usr/share: every file's type, mode, owner, size, times and name.
# needs: find

cd /usr/share || exit 1
find . -type f -printf '%P %m %U %G %s %T@ %i\n' | awk '{ $NF = ""; print }' | sort | sha256sum
find . -type l -printf '%P %l\n' | sort | sha256sum
find . -type d -printf '%P %m %U %G\n' | sort | sha256sum
find . | wc -l
find . -xtype l | wc -l
find . -name '*.py' -size +8k -printf '%f %s\n' | sort | head -n 20
find perl* -type f -exec cat {} + | sha256sum
find . -maxdepth 2 -type d -empty | sort | head
find zoneinfo -samefile zoneinfo/UTC -print -quit 2>/dev/null | wc -l
find zoneinfo -type f -newermt 1990-01-01 | wc -l
find /usr/share/doc -maxdepth 1 -newer /usr/share/no-such-file
find . -type f -name 'copyright' -print0 | xargs -0 grep -l 'MIT' | wc -l
ls -R /usr/share/man | sha256sum
du -s --apparent-size -B1 --exclude=none zoneinfo >/dev/null; echo "du $?"
