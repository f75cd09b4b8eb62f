# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by the scripts: paths, the kernels to test on, and --help.

HTW_CACHE=${HTW_CACHE:-$HOME/.cache/htw}
# shellcheck disable=SC2034 # used by the scripts
htw_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The suite of Debian that this machine runs.
htw_suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
# shellcheck disable=SC2034
htw_kernels='6.1 6.1-rt 6.12 6.12-rt'

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# kernel_suite KERNEL: the suite of Debian that it is built for
kernel_suite() {
	case $1 in
	6.1 | 6.1-rt) echo bookworm ;;
	*) echo "$htw_suite" ;;
	esac
}

# kernel_dir KERNEL: where tools/deps has unpacked the kernel, as vmlinuz, and its headers
kernel_dir() {
	echo "$HTW_CACHE/kernels/$1"
}

# kernel_headers KERNEL: the build directory for its modules
kernel_headers() {
	local dir

	dir=$(kernel_dir "$1")
	echo "$dir/usr/src/linux-headers-$(cat "$dir/release")"
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
