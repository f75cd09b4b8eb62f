# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by the scripts: paths, the kernels to test on, and --help.

HTW_CACHE=${HTW_CACHE:-$HOME/.cache/htw}
htw_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# What is built from this checkout is its own; kernels and downloads are shared with others.
htw_checkout=${htw_top#/}
htw_checkout=${htw_checkout//\//+}
htw_tree=$HTW_CACHE/trees/$htw_checkout
# The suite of Debian that this machine runs.
htw_suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
case $htw_suite in
trixie) htw_other_suite=bookworm ;;
*) htw_other_suite=trixie ;;
esac
# Debian's name of this machine's architecture. On arm64 6.12-arm64 is called 6.12.
htw_arch=$(dpkg --print-architecture)
case $htw_arch in
arm64) cross_kernels='' ;;
*) cross_kernels=' 6.12-arm64' ;;
esac
# shellcheck disable=SC2034
htw_kernels="6.1 6.1-rt 6.12 6.12-rt 6.12-$htw_other_suite$cross_kernels 7"
# Kernels that tools/vm/kernel builds, for amd64.
htw_built=$(cd "$htw_top/tools/vm/kernels" && printf '%s ' *.config)
htw_built=${htw_built//.config/}

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# thrice COMMAND...: run what fetches something, up to three times
thrice() {
	local try

	for try in 1 2 3; do
		"$@" && return
		[ "$try" -eq 3 ] || {
			echo "${0##*/}: attempt $try of 3 failed: $*" >&2
			sleep $((${HTW_RETRY_SECONDS:-5} * try))
		}
	done
	return 1
}

# lock FILE: take a lock, until unlock or the end; if it must be waited for, say who has it.
lock() {
	local other

	mkdir -p "${1%/*}"
	exec {htw_locked}>>"$1"
	flock --nonblock "$htw_locked" || {
		other=$(cat "$1")
		echo "${0##*/}: waiting for ${other:-another process}, which has $1" >&2
		flock "$htw_locked"
	}
	printf 'process %s, %s in %s, since %s' $$ "${0##*/}" "$htw_top" "$(date +%H:%M)" >"$1"
}

unlock() {
	exec {htw_locked}>&-
}

# passed_before NAME COMMAND...: print the file that exists if the check NAME has passed before with
# the same input, which COMMAND prints. Only for checks whose result is a function of that.
passed_before() {
	local sum

	sum=$(set -o pipefail; "${@:2}" | sha256sum) || die "cannot read what $1 depends on"
	mkdir -p "$HTW_CACHE/$1"
	echo "$HTW_CACHE/$1/${sum:0:32}"
}

# result PROGRAM CASE VERDICT REASON SOURCE COMMAND...: report a test to tools/check: tools/results.py
result() {
	local IFS=' ' i fields=("${HTW_AREA-}" "${@:1:5}" "${*:6}")

	[ -n "${HTW_RESULTS-}" ] || return 0
	for i in "${!fields[@]}"; do
		fields[i]=${fields[i]//[$'\t\n\r']/ }
	done
	fields[4]=${fields[4]:0:300}
	IFS=$'\t'
	printf '%s\n' "${fields[*]}" >>"$HTW_RESULTS"
}

# need_amd64 REASON: end the script if this machine has another architecture
need_amd64() {
	[ "$htw_arch" = amd64 ] || die "this needs a machine with amd64: $*"
}

# is_built KERNEL: whether tools/vm/kernel builds it
is_built() {
	[[ " $htw_built" = *" $1 "* ]]
}

# kernel_suite KERNEL: the suite of Debian that it is built for
kernel_suite() {
	case $1 in
	6.1 | 6.1-rt | *-bookworm) echo bookworm ;;
	7 | *-trixie) echo trixie ;;
	*) echo "$htw_suite" ;;
	esac
}

# kernel_arch KERNEL: Debian's name of the architecture that it is for
kernel_arch() {
	case $1 in
	*-arm64) echo arm64 ;;
	*) echo "$htw_arch" ;;
	esac
}

# kernel_root KERNEL: the root in which its modules are built, with the compiler that the kernel
# was built with; nothing if this machine has that
kernel_root() {
	local suite

	suite=$(kernel_suite "$1")
	[ "$suite" = "$htw_suite" ] || echo "$HTW_CACHE/roots/build-$suite"
}

# kernel_home KERNEL: the directory that has kernels/: that root, or the cache
kernel_home() {
	local root

	root=$(kernel_root "$1")
	echo "${root:-$HTW_CACHE}"
}

# module_home KERNEL: the directory below which this checkout builds modules for it
module_home() {
	local root

	root=$(kernel_root "$1")
	if [ -n "$root" ]; then echo "$root/build/$htw_checkout"; else echo "$htw_tree/build"; fi
}

# kernel_dir KERNEL: where tools/deps has unpacked the kernel, as vmlinuz, and its headers; or where
# it has been built
kernel_dir() {
	if is_built "$1"; then echo "$HTW_CACHE/kernel-$1"; else echo "$(kernel_home "$1")/kernels/$1"; fi
}

# kernel_headers KERNEL: the build directory for its modules
kernel_headers() {
	local dir

	dir=$(kernel_dir "$1")
	if is_built "$1"; then echo "$dir"; else echo "$dir/usr/src/linux-headers-$(cat "$dir/release")"; fi
}

# privileged COMMAND...: run it as root
privileged() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo --non-interactive "$@"; fi
}

# build_module KERNEL DIR [MAKE-ARGUMENT]...: build DIR/htw.ko and, unless the arguments say
# otherwise, the samples, the modules of the benchmark and of the tests, from a copy of the sources
# in DIR, so that kernels do not mix. DIR is below module_home. If nothing has changed since the last
# time, kbuild is not asked, which takes seconds.
build_module() {
	local headers root dir=$2 make=(make) how was changes

	headers=$(kernel_headers "$1") || return 1
	root=$(kernel_root "$1")
	# Nothing is mounted in the root: a container may not.
	[ -z "$root" ] || make=(privileged chroot --userspec="$(id -u):$(id -g)" "$root" env -i
		PATH=/usr/bin:/usr/sbin HOME=/ make)
	how="$headers $(stat -c %y "$headers/Module.symvers") ${*:3}"
	was=$(cat "$dir/.built" 2>&1)
	# Not while the sources change: this may be ended there.
	rm -f "$dir/.built"
	changes=$("$htw_top/tools/sync" "$dir") || return
	if [ -z "$changes" ] && [ "$was" = "$how" ]; then
		echo "$how" >"$dir/.built"
		return
	fi
	[ -z "$changes" ] || printf '%s\n' "$changes"
	shift 2
	"${make[@]}" -C "${headers#"$root"}" M="${dir#"$root"}" -j "$(nproc)" \
		SAMPLES=1 BENCH=1 TESTS=1 "$@" modules &&
		echo "$how" >"$dir/.built"
}

# Every script prints the comment at its top for --help.
case ${1-} in
-h | --help)
	sed -e '1,2d' -e '/^#/!Q' -e 's/^# \{0,1\}//' "$0"
	exit 0
	;;
esac
