#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that are at home on a terminal, without one; and crowds of small ones.
# needs: vim tmux ssh-keygen openssl xargs

cd "$TMPDIR" || exit 1
export HOME=$PWD
printf 'a\nb\nc\n' >text
vim -u NONE -es -c '%s/b/BB/' -c 'r !echo from a shell' -c wq text </dev/null
cat text

TERM=xterm TMUX_TMPDIR=$PWD tmux -f /dev/null new-session -d -s one -x 80 -y 24 'echo in tmux; read -r line'
for _ in $(seq 200); do
	seen=$(TMUX_TMPDIR=$PWD tmux capture-pane -p -t one | head -n 1)
	[ -n "$seen" ] && break
	sleep 0.05
done
echo "$seen"
TMUX_TMPDIR=$PWD tmux list-sessions -F '#{session_name} #{session_windows} #{window_width}'
TMUX_TMPDIR=$PWD tmux kill-server
echo "exit $?"

ssh-keygen -q -t ed25519 -N '' -f key
ssh-keygen -y -f key | cut -d ' ' -f 1
stat -c '%a %n' key key.pub
echo text | ssh-keygen -q -Y sign -f key -n file 2>/dev/null | head -n 1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout secret -out cert -days 1 -subj /CN=x 2>/dev/null
openssl verify -CAfile cert cert
openssl speed -multi 2 -seconds 1 -bytes 64 sha256 2>/dev/null | grep -c ^sha256

seq 300 | xargs -P 8 -n 5 sh -c 'echo $#' _ | sort | uniq -c
mkdir -p tree/b/c
touch tree/b/c/{1..60}
find tree -type f -print0 | xargs -0 -P 4 -n 7 ls | wc -l
find tree -depth -delete
ls tree 2>/dev/null || echo gone
