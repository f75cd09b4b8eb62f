#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Load the sample module, which uses callouts, and read its counters.
# Runs in the VM; TAP.

# shellcheck source=tools/common/tap.sh
. ./tap.sh
module=/lib/htw/htw_sample.ko
values=/sys/module/htw_sample/parameters

# reaches FILE VALUE: wait up to 30 s for the value
reaches() {
	for _ in $(seq 300); do
		[ "$(cat "$1")" = "$2" ] && return
		usleep 100000
	done
	echo "$1 says $(cat "$1"), not $2"
}

plan 5
result "the sample loads" "$(insmod $module sessions=10000 timeout_ms=200 2>&1)"
result "every session is closed once" "$(reaches $values/closed 10000)"
result "none was closed early" "$([ "$(cat $values/early)" = 0 ] || cat $values/early)"
result "it unloads" "$(rmmod htw_sample 2>&1)"
# Unload while most callouts are pending and some are running.
insmod $module sessions=100000 timeout_ms=100
result "it unloads while sessions time out" "$(rmmod htw_sample 2>&1)"
[ "$failed" -eq 0 ]
