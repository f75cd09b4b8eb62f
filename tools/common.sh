# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by the scripts: paths, the kernels to test on, and --help.

HTW_CACHE=${HTW_CACHE:-$HOME/.cache/htw}
# shellcheck disable=SC2034 # used by the scripts
htw_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034
htw_kernels='6.1 6.1-rt 6.12 6.12-rt'

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# kernel_headers KERNEL: the directory where tools/deps has unpacked its headers
kernel_headers() {
	echo "$HTW_CACHE/kernels/$1/usr/src/linux-headers-$(cat "$HTW_CACHE/kernels/$1/release")"
}

# build_module KERNEL DIR [MAKE-ARGUMENT]...: build DIR/htw.ko, the samples, the modules
# of the benchmark and of the tests from a copy of the sources in DIR, so that kernels do not mix
build_module() {
	local headers dir=$2

	headers=$(kernel_headers "$1") || return 1
	shift 2
	"$htw_top/tools/sync" "$dir" &&
		make -C "$headers" M="$dir" -j "$(nproc)" SAMPLES=1 BENCH=1 TESTS=1 "$@" modules
}

# Every script prints the comment at its top for --help.
case ${1-} in
-h | --help)
	sed -e '1,2d' -e '/^#/!Q' -e 's/^# \{0,1\}//' "$0"
	exit 0
	;;
esac
