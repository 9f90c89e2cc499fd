#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bash: here-documents and here-strings, small and larger than a pipe holds.
# needs: bash cksum

name=moat
cat <<EOF
hello $name, $((6 * 7)), $(echo sub)
EOF
cat <<'EOF'
no $name here
EOF
cat <<-EOF
	tabs go
		all of them
EOF
cat <<<"here-string $name"
tr a-z A-Z <<A; cat <<B
first
A
second
B
big=$(seq 1 60000)
cksum <<EOF
$big
EOF
wc -c <<<"$big"
while read -r a b; do echo "$b-$a"; done <<EOF
1 2
3 4
EOF
f() {
	cat <<EOF
in a function: $1
EOF
}
f arg | sed 's/^/piped /'
sh <<'EOF'
echo "sh reads its script from a here-document"
x=$(cat <<IN
inner
IN
)
echo "$x"
EOF
