# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What odd calls must not have changed of the host. Sourced by tests that make such calls natively, or in a sentry
# taken over: host_state_begin before, host_state_same after.
host_state_begin() {
	host_state=$(stat -c '%n %F %a %u:%g' / /tmp /dev /dev/null)
	host_root_mtime=$(stat -c %Y /)
}
# Others may make something in the host's root meanwhile, but nobody turns its clock back.
host_state_same() {
	local now
	now=$(stat -c '%n %F %a %u:%g' / /tmp /dev /dev/null)
	if [ "$now" != "$host_state" ]; then
		echo "the host was changed:"
		diff <(echo "$host_state") <(echo "$now")
		return 1
	fi
	if [ "$(stat -c %Y /)" -lt "$host_root_mtime" ]; then
		echo "the host was changed: the time of its root was set back to $(stat -c %y /)"
		return 1
	fi
}
