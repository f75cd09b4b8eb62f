#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Run the first program of README.md, which tools/Makefile has compiled unchanged, and
# check its output. Runs in the VM; TAP.

# shellcheck source=tools/common/tap.sh
. ./tap.sh

# lines PATTERN: count the lines of the output that match
lines() {
	echo "$out" | grep -c -x "$1"
}

# is EXPECTED ACTUAL
is() {
	[ "$2" = "$1" ] || echo "expected $1, got $2"
}

# fails WORDS: the program fails and prints these words
fails() {
	if output=$(readme-program 2>&1); then
		echo "it succeeded"
	elif ! echo "$output" | grep -q "$1"; then
		echo "it printed: $output"
	fi
}

plan 5
out=$(readme-program)
result "it succeeds" "$(is 0 $?)"
result "0 and 2 expire, once each" \
	"$(is "1 1" "$(lines 'timeout 0 expired, [0-9]* us late') $(lines 'timeout 2 expired, [0-9]* us late')")"
# On a machine that stalls for 200 ms it may expire.
result "1 ends once" \
	"$(is 1 "$(lines 'timeout 1 \(cancelled, [0-9]* ms before it was due\|expired, [0-9]* us late\)')")"
result "it prints nothing else" "$(is 3 "$(lines '.*')")"
mv /dev/htw /dev/htw.away
result "without the device it says so" "$(fails '^/dev/htw: No such file or directory')"
mv /dev/htw.away /dev/htw
[ "$failed" -eq 0 ]
