#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bash: pipelines, PIPESTATUS, process substitution, subshells, redirections.
# needs: bash awk sed sort tr

seq 1 20000 | awk '{ s += $1 } END { print s }'
yes moat | head -n 3
seq 1 1000 | tac | sort -n | uniq | wc -l
(exit 3) | (exit 4) | true
echo "${PIPESTATUS[@]}"
set -o pipefail
false | true
echo "pipefail $?"
set +o pipefail
diff <(seq 1 5) <(seq 2 6)
echo "diff $?"
exec 5>"$TMPDIR/five"
echo to five >&5
exec 5>&-
cat "$TMPDIR/five"
{ echo out; echo err >&2; } 2>&1 | sort
echo "$( (echo nested; (echo deeper)) )"
seq 1 3 | while read -r n; do echo "line $n"; done
coproc CAT { tr a-z A-Z; }
echo hello coproc >&"${CAT[1]}"
eval "exec ${CAT[1]}>&-"
read -r line <&"${CAT[0]}"
echo "$line"
wait
head -c 300000 /dev/zero | tr '\0' x | wc -c
: | :
echo "empty ${PIPESTATUS[*]}"
cat /nonexistent
echo "cat $?"
no_such_command_here
echo "missing $?"
mkfifo "$TMPDIR/fifo"
(echo through the fifo >"$TMPDIR/fifo") &
cat "$TMPDIR/fifo"
wait
for i in 1 2 3 4 5 6 7 8; do echo "$i" & done | sort
shopt -s globstar nullglob
mkdir -p "$TMPDIR"/g/{a,b}/{1,2}
touch "$TMPDIR"/g/{a,b}/{1,2}/f
cd "$TMPDIR/g" && echo ** && echo */1/?
sh -c 'kill -TERM $$' 2>/dev/null
echo "term $?"
printf '%s\n' "${BASH_VERSINFO[0]}" $((2 ** 40)) "${!BASH_VERSIN@}"
