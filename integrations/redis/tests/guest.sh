#!/bin/sh
# SPDX-License-Identifier: MIT
# Run by test_device.py in a VM that has the kernel module, in a directory with the server, its
# client, their libraries and the module for Redis. Prints a line for each thing that is so.
set -u

linker=$(echo ./ld-linux-*.so.*)
run() { program=$1; shift; "$linker" --library-path . "./$program" "$@"; }
cli() { run redis-cli -s "$PWD/socket" "$@"; }

# start OPTION...: start the server, and wait until it answers
start() {
	run redis-server --port 0 --unixsocket "$PWD/socket" --daemonize no --logfile log \
		--enable-module-command yes "$@" &
	server=$!
	for _ in $(seq 600); do
		[ "$(cli ping 2>/dev/null)" != PONG ] || return 0
		sleep 0.1
	done
	echo "the server does not answer"
	cat log
	exit 1
}

# until_is WANT COMMAND...: repeat a command until it prints WANT
until_is() {
	want=$1
	shift
	for _ in $(seq 100); do
		got=$(cli "$@")
		[ "$got" != "$want" ] || return 0
		sleep 0.1
	done
	echo "$*: $got, not $want"
	return 1
}

field() { cli htw.info | sed -n "/^$1\$/{n;p}"; }

# add STREAM COUNT FIRST STEP: add timeouts that are due FIRST, FIRST + STEP, ... ms from now
add() {
	seq "$2" | awk -v stream="$1" -v first="$3" -v step="$4" \
		'{ print "htw.add", stream, first + step * $1, "p" $1 }' | cli | grep -vc '^ERR'
}

payloads() { cli xrange "$1" - + | grep -c '^p[0-9]*$'; }
different() { cli xrange "$1" - + | grep '^p[0-9]*$' | sort -u | wc -l; }

start --save '' --appendonly yes --appendfsync always --loadmodule ./htw.so BACKEND device
echo "backend $(field backend)"

echo "added $(add jobs 1000 100 1)"
until_is 1000 xlen jobs && echo "delivered $(payloads jobs) different $(different jobs)"

# An hour: cancelled.
cli htw.add jobs 3600000 cancelled ID one >/dev/null
echo "cancelled $(cli htw.cancel jobs one)"

# Half are due before the crash, half after it.
echo "added $(add crash 400 500 20)"
until [ "$(cli xlen crash)" -ge 200 ]; do sleep 0.1; done
kill -KILL "$server"
wait "$server" 2>/dev/null
start --save '' --appendonly yes --appendfsync always --loadmodule ./htw.so BACKEND device
until_is 400 xlen crash && echo "delivered $(payloads crash) different $(different crash)"

cli htw.expire on >/dev/null
others=$(cli dbsize)
seq 500 | awk '{ print "set", "k" $1, "v", "px", 200 + $1 }' | cli >/dev/null
until_is "$others" dbsize && echo "keys left: $(cli keys 'k*' | grep -c k)"
cli shutdown nosave
wait "$server"
echo "ended $?"
