# SPDX-License-Identifier: Apache-2.0
# Prints what may differ from run to run, by bash.
echo "$RANDOM $SRANDOM $$ $BASHPID $EPOCHREALTIME $SECONDS"
date --rfc-3339=ns
sleep 1000
date +%s.%N
sleep 3600 & wait $!
date
time sleep 5
for i in 1 2 3 4; do (for j in 1 2 3; do echo "$i $j $RANDOM"; sleep 0.$i; done) & done
wait
mktemp -u
seq 20 | xargs -P 4 -n 1 sh -c 'echo $$ $0'
seq 5 | while read -r n; do echo "$n" | (read -r x; echo "$x $RANDOM"); done
ls -if /proc/self/fd/ /tmp /etc | head -40
timeout 60 sleep 3600; echo "timeout $?"
read -r -t 30 x < <(sleep 31; echo late); echo "read $? $x"
ps -e -o pid,ppid,comm,etimes,time 2>&1
