# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash
# Sourced by the shell tests, in the VM: results as TAP.
number=0
failed=0

# plan COUNT: print the header of the report
plan() {
	echo "TAP version 13"
	echo "1..$1"
}

# result NAME PROBLEM: a test that passes if PROBLEM is empty
result() {
	number=$((number + 1))
	if [ -z "$2" ]; then
		echo "ok $number $1"
	else
		echo "$2" | sed 's/^/# /'
		echo "not ok $number $1"
		failed=$((failed + 1))
	fi
}
