# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by the scripts here: where things are, and which kernels we test on.

HTW_CACHE=${HTW_CACHE:-$HOME/.cache/htw}
# shellcheck disable=SC2034 # for those that source this
htw_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034
htw_kernels='6.1 6.1-rt 6.12 6.12-rt'

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# The headers of kernel $1, one of $htw_kernels, as tools/deps has put them.
kernel_headers() {
	echo "$HTW_CACHE/kernels/$1/usr/src/linux-headers-$(cat "$HTW_CACHE/kernels/$1/release")"
}

# build_module KERNEL DIR [MAKE-ARGUMENT]...: DIR/htw.ko, the samples and the
# benchmark's module, from a copy of the sources there, so that the builds for several kernels never mix.
build_module() {
	local headers dir=$2

	headers=$(kernel_headers "$1") || return 1
	shift 2
	"$htw_top/tools/sync" "$dir" &&
		make -C "$headers" M="$dir" -j "$(nproc)" SAMPLES=1 BENCH=1 "$@" modules
}
