#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash
# Usage: delay-test.sh [PROGRAM]...
# Run device tests (by default those that race) with random delays in htw's functions, and
# unload htw and the delays. TAP. For the VM: it loads and unloads the modules. By hand, with
# other delays (see tools/tests/kernel/htw_delay.c), for hours:
#
#   tools/vm/run --cpus 4 --timeout 9999 --file tools/tests/delay-test.sh \
#       --file tools/common/tap.sh -- sh -c 'DELAYS="seed=7 one_in=4" sh ./delay-test.sh'
#
# Slow: a minute.

# shellcheck source=tools/common/tap.sh
. ./tap.sh
module=/lib/htw/htw_delay.ko
points=/sys/kernel/debug/htw_delay
[ $# -gt 0 ] || set -- torture-test hotplug-test process-test poll-test async-test clock-test

# delays: how many calls were delayed until now
delays() { cat /sys/module/htw_delay/parameters/delays; }

# What kprobes still holds on to.
probes() { cat /sys/kernel/debug/kprobes/list; }

# refused: functions in which there are no delays
refused() {
	sed -n 's/ error .*//p' $points | while read -r name; do
		echo "no delays in $name: if it was renamed, correct the list in htw_delay.c"
	done
}

# run PROGRAM: print what is wrong
run() {
	before=$(delays)
	if ! said=$("$@" 2>&1); then
		echo "$said"
	elif [ "$(delays)" -le "$before" ]; then
		echo "nothing was delayed"
	fi
}

if [ ! -e "$module" ]; then
	plan 1
	echo "ok 1 # SKIP no delays on this architecture: probes are breakpoints, and not ftrace's calls"
	exit
fi
plan $(($# + 6))
# shellcheck disable=SC2086 # a list of words
result "the delays load" "$(insmod $module ${DELAYS-} 2>&1)"
result "every function has a probe" "$(refused)"
for program; do
	began=$(cut -d . -f 1 /proc/uptime)
	problem=$(run "$program")
	# Every few minutes the host wants to see output.
	echo "# $program: $(($(cut -d . -f 1 /proc/uptime) - began)) s, $(delays) delays"
	result "$program passes with delays" "$problem"
done

# Callouts are started and run while their module, and then htw, are unloaded.
insmod /lib/htw/htw_sample.ko sessions=20000 timeout_ms=50
result "a user of callouts unloads" "$(rmmod htw_sample 2>&1)"
result "htw unloads with delays" "$(rmmod htw 2>&1)"
sed 's/^/# /' $points
result "the delays unload" "$(rmmod htw_delay 2>&1)"
result "no probe is left" "$(probes)"
insmod /htw.ko
[ "$failed" -eq 0 ]
