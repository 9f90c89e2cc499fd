#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks each #include "folder/…" of the given folders against tools/include-edges.txt.
set -eu
cd "$(dirname "$0")/.."
find "$@" -name '*.[chS]' -exec grep -nH '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' {} + |
	awk '
	BEGIN {
		while ((getline line < "tools/include-edges.txt") > 0) {
			if (line ~ /^#/ || line !~ /:/)
				continue
			n = split(line, part, /[: ]+/)
			known[part[1]] = 1
			for (i = 1; i <= n; i++)
				allowed[part[1], part[i]] = 1
		}
	}
	{
		split($0, at, ":")
		from = at[1]; sub(/\/.*/, "", from)
		path = $0; sub(/^[^"]*"/, "", path); sub(/".*/, "", path)
		to = path; sub(/\/.*/, "", to)
		where = at[1] ":" at[2] ": "
		# No folder in the name, or a generated file: not an edge between folders.
		if (path !~ /\// || !(to in known))
			next
		if (!(from in known)) {
			print where from " is not in tools/include-edges.txt"; bad = 1
		} else if (!((from, to) in allowed)) {
			print where from " must not include " to " (" path ")"; bad = 1
		} else if (from != to && path ~ /_internal\.h$/) {
			print where path " is private to " to; bad = 1
		}
	}
	END { exit bad }'
