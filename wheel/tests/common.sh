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

# documented_code COLUMN PREFIX OPTION...: what is called, and HTW_WHEEL_LEVELS, decide how much of the
# wheel the linker keeps; all of it is what the compiler makes of the file. What that column in a table
# of docs/wheel.md says is just that with Debian 12's compiler; with others it may be off by a tenth, but
# for what objects take. PREFIX is that of the compiler.
documented_code() {
	local row options image=$tmp/$BASHPID-small documented bytes off tenth=10 status=0

	case $("$2gcc" -dumpfullversion) in 12.2.*) tenth=0 ;; esac
	while IFS='|' read -r row options; do
		if [ "$options" = -c ]; then
			"$2gcc" -Os "${@:3}" -c -o "$image.o" "$made/htw_wheel.c" || return
			bytes=$("$2nm" -S --radix=d "$image.o" | awk '$3 ~ /[tT]/ { n += $2 } END { print n + 0 }')
		elif [ -n "$options" ]; then
			# shellcheck disable=SC2086 # several words
			"$2gcc" -std=c99 -Os -ffreestanding -ffunction-sections -fno-pie "${@:3}" $options -I "$made" \
				-nostdlib -no-pie -Wl,--gc-sections,--entry=main -o "$image" wheel/tests/small.c \
				"$made/htw_wheel.c" -lgcc || return
			"$2nm" --print-size --radix=d "$image" >"$image.nm"
			bytes=$(awk '$4 ~ /^htw_/ && $3 ~ /[tT]/ { sum += $2 } END { print sum + 0 }' "$image.nm")
		else
			bytes=$(awk -v object="^${row##*:}" '$4 ~ object { print $2 + 0 }' "$image.nm")
			row=${row%:*}
		fi
		documented=$(awk -F ' *[|] *' -v row="$row" -v head="$1" '
			{ for (i = 3; i < NF; i++) if ($i == head) column = i }
			$2 == row && column { gsub(",", "", $column); print $column; exit }' docs/wheel.md)
		echo "$row, $1: $bytes; docs/wheel.md has ${documented:-no such row}"
		off=${options:+$tenth}
		((100 * bytes >= (100 - off) * documented && 100 * bytes <= (100 + off) * documented)) || status=1
	done <<-'END'
		start, stop and advance, without levels|-DSMALL -DHTW_WHEEL_LEVELS=0
		the same, if there may be levels|-DSMALL
		the same, with levels|-DLEVELS
		all of it|-c
		a node:node$|
		a wheel:wheel$|
		levels of 10, 60, 5 slots:memory|
	END
	return $status
}

# sources_of_suite DIRECTORY WHEEL: put KUnit's suites of the wheel there, which become programs with
# tests/kunit.h in front; the header of the wheel in the directory WHEEL; and empty ones for the
# kernel's
sources_of_suite() {
	local header

	mkdir -p "$1/kunit" "$1/lib" "$1/wheel" && cp kunit/htw_{wheel,geometry}_kunit.c "$1/kunit" &&
		cp -r lib/fuzz "$1/lib" && cp "$2/htw_wheel.h" "$1" && cp "$2/htw_wheel_check.h" "$1/wheel/check.h" ||
		return
	sed -n 's/^#include <\(.*\)>$/\1/p' "$1"/kunit/*.c | while read -r header; do
		mkdir -p "$1/none/${header%/*}" && : >"$1/none/$header" || return
	done
}

# all_ok OUTPUT: TAP in which all that was planned has passed
all_ok() {
	[ "1..$(grep -c '^ok ' "$1")" = "$(head -n 1 "$1")" ] || { cat "$1"; return 1; }
}
