# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034
# Sourced by wheel/run-tests and wheel/on-machines: tests that run side by side, and their counts.
# What is built goes to $tmp, in which $made has the two files.

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
made=$tmp/made
version=$(cat VERSION)
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wcast-qual -Werror)
tried=() skipped=() running=0

# try NAME COMMAND...: a test that passes if the command exits with 0; as many run at a time as there
# are CPUs
try() {
	[ "$running" -lt "$(nproc)" ] || { wait -n; running=$((running - 1)); }
	running=$((running + 1))
	{
		"${@:2}" >"$tmp/${#tried[@]}.log" 2>&1 </dev/null
		echo $? >"$tmp/${#tried[@]}.status"
	} &
	tried+=("$1")
}

# skip NAME REASON
skip() {
	skipped+=("$1: $2")
}

# Wait for all tests, print what each gave, and the counts; return 0 if all have passed.
report() {
	local passed=0 failed=0 i

	wait
	for i in "${!tried[@]}"; do
		if [ "$(cat "$tmp/$i.status")" = 0 ]; then
			echo "ok ${tried[i]}"
			passed=$((passed + 1))
		else
			sed 's/^/# /' "$tmp/$i.log"
			echo "not ok ${tried[i]}"
			failed=$((failed + 1))
		fi
	done
	[ "${#skipped[@]}" -eq 0 ] || printf 'skipped %s\n' "${skipped[@]}"
	echo "$passed passed, $failed failed, ${#skipped[@]} skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# sources_of_suite DIRECTORY WHEEL: put KUnit's suites of the wheel there, which become programs with
# tests/kunit.h in front; the header of the wheel in the directory WHEEL; and empty ones for the
# kernel's
sources_of_suite() {
	local header

	mkdir -p "$1/kunit" "$1/lib" "$1/wheel" && cp kunit/htw_{wheel,geometry}_kunit.c "$1/kunit" &&
		cp -r lib/fuzz "$1/lib" && cp "$2/htw_wheel.h" "$1" && cp "$2/htw_wheel.h" "$1/wheel/more.h" ||
		return
	sed -n 's/^#include <\(.*\)>$/\1/p' "$1"/kunit/*.c | while read -r header; do
		mkdir -p "$1/none/${header%/*}" && : >"$1/none/$header" || return
	done
}

# all_ok OUTPUT: TAP in which all that was planned has passed
all_ok() {
	[ "1..$(grep -c '^ok ' "$1")" = "$(head -n 1 "$1")" ] || { cat "$1"; return 1; }
}
