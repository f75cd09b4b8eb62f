#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Load the sample module, which uses callouts, and read its counters.
# Runs in the VM; TAP.
module=/lib/htw/htw_sample.ko
values=/sys/module/htw_sample/parameters
n=0

# result NAME PROBLEM: a test that passes if PROBLEM is empty
result() {
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n $1"
	else
		echo "# $2"
		echo "not ok $n $1"
	fi
}

# reaches FILE VALUE: wait up to 30 s for the value
reaches() {
	for _ in $(seq 300); do
		[ "$(cat "$1")" = "$2" ] && return
		usleep 100000
	done
	echo "$1 says $(cat "$1"), not $2"
}

echo "TAP version 13"
echo "1..5"
result "the sample loads" "$(insmod $module sessions=10000 timeout_ms=200 2>&1)"
result "every session is closed once" "$(reaches $values/closed 10000)"
result "none was closed early" "$([ "$(cat $values/early)" = 0 ] || cat $values/early)"
result "it unloads" "$(rmmod htw_sample 2>&1)"
# Unload while most callouts are pending and some are running.
insmod $module sessions=100000 timeout_ms=100
result "it unloads while sessions time out" "$(rmmod htw_sample 2>&1)"
