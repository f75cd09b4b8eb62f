#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash
# Run the cases of kunit/timer_cases.h with timer_list and with callouts, in a module, and read
# what the tracepoints of callouts say of a module that uses them.
# Runs in the VM; TAP.

# shellcheck source=tools/common/tap.sh
. ./tap.sh
events=/sys/kernel/tracing/events/htw_callout
values=/sys/module/htw_sample/parameters

# traced EVENT [TEXT]: how often it was
traced() { grep -c "htw_callout_$1: .*${2-}" trace; }

# is WHAT NUMBER EXPECTED
is() { [ "$2" -eq "$3" ] || echo "$1: $2, not $3"; }

insmod /lib/htw/htw_timers.ko || exit
said=$(cat /sys/kernel/debug/htw_timers)
rmmod htw_timers || exit
planned=$(echo "$said" | sed -n 's/^1\.\.//p')
plan $((planned + 1))
echo "$said" | sed '/^TAP/d; /^1\.\./d'
# shellcheck disable=SC2034 # of tap.sh
number=$planned

echo 1 >$events/enable
insmod /lib/htw/htw_sample.ko sessions=8 timeout_ms=20
for _ in $(seq 300); do
	[ "$(cat $values/closed)" != 8 ] || break
	usleep 100000
done
moved=$(cat $values/moved)
echo 0 >$events/enable
# While the module is there, so that its function has a name.
cat /sys/kernel/tracing/trace >trace
rmmod htw_sample
result "each has traced what it did" "$(
	is init "$(traced init)" 8
	is start "$(traced start 'function=session_expired')" $((8 + moved))
	is cancel "$(traced cancel)" "$moved"
	is expire_entry "$(traced expire_entry 'function=session_expired')" 8
	is expire_exit "$(traced expire_exit)" 8
)"
case $said in
*'not ok'* | '') exit 1 ;;
esac
[ "$failed" -eq 0 ]
