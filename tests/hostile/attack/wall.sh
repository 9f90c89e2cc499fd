#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# wall.sh DIR PROGRAM [ARG...]: the native runs of attacks.sh, by root in a mount name space that the caller has made: all
# that is mounted becomes read-only (with modes, owners and times, and those of devices), but for DIR; capabilities over
# the machine are given up. What an attack hits by mistake is then not the host.
dir=$1
shift
mount --bind "$dir" "$dir" || exit 125
while read -r _ _ _ _ at options _; do
	at=$(printf '%b' "$at")
	[[ ,$options, = *,ro,* ]] || [ "$at" = "$dir" ] || mount -o remount,bind,ro "$at" 2>/dev/null
done </proc/self/mountinfo
# Whatever could not be remounted, be it that something else is mounted over it, must not be what a name leads to.
for at in / /dev /dev/null /dev/shm /proc /sys /tmp /var/tmp /run /home /root /etc "${dir%/*}"; do
	[ -e "$at" ] && chmod --reference="$at" "$at" 2>/dev/null && {
		echo "wall.sh: $at can still be changed"
		exit 125
	}
done
caps=
for cap in sys_time sys_boot sys_module sys_rawio sys_nice sys_pacct sys_resource sys_tty_config mknod linux_immutable net_admin \
	audit_control syslog mac_admin mac_override wake_alarm block_suspend; do
	caps=$caps${caps:+,}-$cap
done
exec setpriv --bounding-set "$caps" "$@"
