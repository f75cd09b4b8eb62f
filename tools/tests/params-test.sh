#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash
# Usage: params-test.sh [MODULE]
# Test the module's parameters: invalid values are refused with a message, and the module
# works with valid ones. TAP. For the VM: it loads and unloads the module.
#
# Slow: 40 s.
#
#   tools/device-tests 6.12 params-test

# shellcheck source=tools/common/tap.sh
. ./tap.sh

find_module() {
	for module in "$1" /lib/htw/htw.ko /htw.ko ./htw.ko; do
		[ -n "$module" ] && [ -f "$module" ] && return
	done
	echo "Bail out! no htw.ko"
	exit 1
}

# mark, since_mark: print what the kernel has logged since the mark
mark() {
	marks=$((marks + 1))
	echo "<6>params-test: mark $marks" >/dev/kmsg
}

since_mark() {
	dmesg | sed -n "/params-test: mark $marks\$/,\$p" | sed '1d; s/^\[[^]]*\] *//'
}

# refused PARAMETER VALUE WORDS...: loading fails with EINVAL, and one line of the log
# contains PARAMETER and all WORDS: the value, and its range
refused() {
	parameter=$1 value=$2 wrong=
	shift 2
	mark
	if said=$(insmod "$module" "$parameter=$value" 2>&1); then
		wrong="it was loaded"
		rmmod htw
	elif ! echo "$said" | grep -q -i 'invalid \(argument\|parameter\)'; then
		wrong="not EINVAL: $said"
	elif [ -e /sys/module/htw ] || [ -e /dev/htw ]; then
		wrong="the module or its device was left behind"
	else
		log=$(since_mark)
		line=$(echo "$log" | grep htw | grep -w "$parameter")
		for word; do
			line=$(echo "$line" | grep -e "$word")
		done
		[ -n "$line" ] || wrong="the log does not mention $*: $log"
	fi
	result "refuses $parameter=$value" "$wrong"
}

# works_with "PARAMETERS" PROGRAM...: load, run the programs, unload
works_with() {
	parameters=$1 wrong=
	shift
	# shellcheck disable=SC2086 # a list of words
	if ! wrong=$(insmod "$module" $parameters 2>&1); then
		result "works with $parameters" "${wrong:-cannot be loaded}"
		return
	fi
	wrong=
	for parameter in $parameters; do
		file=/sys/module/htw/parameters/${parameter%%=*}
		[ "$(cat "$file")" = "${parameter#*=}" ] || wrong="$file says $(cat "$file")"
	done
	for program; do
		# shellcheck disable=SC2086 # a list of words
		$program >/tmp/params-test.log 2>&1 ||
			wrong="$wrong$program: $(grep -v -e ' RUN ' -e ' OK ' -e '^ok' /tmp/params-test.log)"
	done
	rmmod htw || wrong="${wrong}cannot be unloaded"
	result "works with $parameters" "$wrong"
}

marks=0
find_module "$1"
[ ! -e /sys/module/htw ] || rmmod htw || { echo "Bail out! htw is in use"; exit 1; }

plan 16

refused tick_us 0 0 10 1000000
refused tick_us 5 5 10 1000000
refused tick_us 9 9 10 1000000
refused tick_us 1000001 1000001 10 1000000
refused tick_us 2000000 2000000 10 1000000
refused tick_us 4294967295 4294967295 10 1000000
refused tick_us -1 -1
refused tick_us one one
refused max_timers 0 0 1
refused max_timers 4294967295 4294967295 1
refused max_timers many many
refused max_user_timers 0 0 1
refused max_user_timers 4294967295 4294967295 1

across="expire-test -t around_the_windows_of_the_levels -t order"
works_with "tick_us=10000" abi-test "$across"
works_with "tick_us=100" "$across"
works_with "max_timers=1000" abi-test limit-test

# Leave the module loaded: the VM's init unloads it.
insmod "$module" || failed=1
[ "$failed" -eq 0 ]
