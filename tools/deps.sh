#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of packages.txt (and tests/*/packages.txt) that are missing.
#   tools/deps.sh CLASS…   CLASS: build, unit, test, lint, demo, bench; or all
# Silent and without the network when nothing is missing.
set -eu
cd "$(dirname "$0")/.."

command -v dpkg-query >/dev/null 2>&1 || {
	echo "deps: not a Debian system: install the equivalents of packages.txt by hand" >&2
	exit 0
}

wanted=$(awk -v classes=" $* " '
	/^#/ || NF == 0 { next }
	index(classes, " all ") || index(classes, " " $1 " ") { print $2 }' packages.txt)
# What a folder of tests runs it lists itself: "package # reason".
case " $* " in *" all "* | *" test "*)
	wanted="$wanted
$(cat tests/*/packages.txt 2>/dev/null | sed 's/#.*//' | awk 'NF { print $1 }')"
	;;
esac
wanted=$(echo "$wanted" | sort -u)
missing=
for p in $wanted; do
	s=$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) || s=
	[ "$s" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null 2>&1 || {
		echo "deps: missing packages, and neither root nor sudo to install them:" >&2
		echo "    apt-get install$missing" >&2
		exit 1
	}
	as_root="sudo"
fi
echo "deps: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh machine are empty or stale, so always look first.
$as_root apt-get -qq update >&2
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive \
	apt-get -qq -y --no-install-recommends install $missing >&2
