#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# find over /usr/share: every file's type, mode, owner, size, times and name.
# needs: find

cd /usr/share || exit 1
# What not everybody of the host may read is not shown in the sandbox, not even to its root.
mapfile -t top < <(find . -mindepth 1 -maxdepth 1 ! -name polkit-1 | sort)
find "${top[@]}" -type f -printf '%P %m %U %G %s %T@ %i\n' | awk '{ $NF = ""; print }' | sort | sha256sum
find "${top[@]}" -type l -printf '%P %l\n' | sort | sha256sum
find "${top[@]}" -type d -printf '%P %m %U %G\n' | sort | sha256sum
find "${top[@]}" | wc -l
# An absolute one leads out of /usr, to where the guest may have nothing.
find "${top[@]}" -xtype l ! -lname '/*' | wc -l
find "${top[@]}" -name '*.py' -size +8k -printf '%f %s\n' | sort | head -n 20
find perl* -type f -exec cat {} + | sha256sum
find "${top[@]}" -maxdepth 1 -type d -empty | sort | head
find zoneinfo -samefile zoneinfo/UTC -print -quit 2>/dev/null | wc -l
find zoneinfo -type f -newermt 1990-01-01 | wc -l
find /usr/share/doc -maxdepth 1 -newer /usr/share/no-such-file
find "${top[@]}" -type f -name 'copyright' -print0 | xargs -0 grep -l 'MIT' | wc -l
ls -R /usr/share/man | sha256sum
du -s --apparent-size -B1 --exclude=none zoneinfo >/dev/null; echo "du $?"
