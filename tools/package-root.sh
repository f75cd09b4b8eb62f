# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by tests of the packages, in the top directory: clean roots of Debian to install the
# packages in, and counted tests.
# shellcheck disable=SC2034 # variables for the scripts

[ "$(id -u)" -eq 0 ] || die "needs root, to create and enter roots"
need_amd64 'it boots PCs'
passed=0 failed=0 skipped=0 suite=''
roots=$HTW_CACHE/roots
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
version=$(cat VERSION)
mkdir -p "$roots"

# What could not be run: the network does not answer, the emulator dies. All is run again.
not_run=125

# result NAME STATUS: count a test whose output is in $tmp/log
result() {
	if [ "$2" -eq "$not_run" ]; then
		tail -n 20 "$tmp/log"
		echo "${0##*/}: not run: ${suite:+$suite: }$1"
		exit "$not_run"
	fi
	if [ "$2" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok ${suite:+$suite: }$1"
	else
		failed=$((failed + 1))
		echo "not ok ${suite:+$suite: }$1"
		tail -n 60 "$tmp/log" | sed 's/^/# /'
	fi
	return "$2"
}

# try NAME COMMAND...: a test that passes if the command exits with 0
try() {
	local name=$1 status=0

	shift
	"$@" >"$tmp/log" 2>&1 </dev/null || status=$?
	result "$name" "$status"
}

# count_guest_results PREFIX: count the tests that a guest has reported in $tmp/guest, as
# $guest_results
count_guest_results() {
	local line reported

	guest_results=0
	sed -i 's/\r$//' "$tmp/guest"
	mapfile -t reported <"$tmp/guest"
	for line in "${reported[@]}"; do
		case $line in
		'ok '*) try "$1${line#ok }" true; guest_results=$((guest_results + 1)) ;;
		'not ok '*) sed -n "/^$line\$/,/^[on]/p" "$tmp/guest" >"$tmp/log"
			result "$1${line#not ok }" 1
			guest_results=$((guest_results + 1)) ;;
		esac
	done
}

# emulate COMMAND...: boot a guest whose console is $tmp/console, up to three times if the emulator
# kills it; $status is the command's, or not_run
emulate() {
	local try

	for try in 1 2 3; do
		status=0
		"$@" || status=$?
		tools/emulator-killed "$tmp/console" || return 0
		echo "$suite: the emulator killed the guest, attempt $try of 3"
	done
	status=$not_run
}

# in_root COMMAND...: run it with $root as its root; downloaded packages are kept
# shellcheck disable=SC2016 # expanded by the inner shell
in_root() {
	mkdir -p "$roots/apt-$suite"
	unshare --mount --pid --fork --kill-child bash -euc '
		root=$1 archives=$2
		shift 2
		mount -t proc proc "$root/proc"
		mount -t sysfs -o ro sysfs "$root/sys"
		mount -t tmpfs tmpfs "$root/tmp"
		mount --bind "$archives" "$root/var/cache/apt/archives"
		export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
		exec chroot "$root" "$@"' in_root "$root" "$roots/apt-$suite" "$@"
}

apt_get() {
	in_root apt-get -qq -y -o Dpkg::Use-Pty=0 -o APT::Update::Error-Mode=any "$@"
}

# fetch COMMAND...: what fails only if the network does
fetch() {
	thrice "$@" || return "$not_run"
}

# Packages that contradict each other have failed, before anything is fetched.
apt_install() {
	set -- install --no-install-recommends "$@"
	apt_get --simulate "$@" >/dev/null && fetch apt_get --download-only "$@" && apt_get "$@"
}

fresh_root() {
	rm -rf "$root" && mkdir "$root" && debootstrap --variant=minbase "$suite" "$root"
}

# Create a minimal bootable system with its suite's kernel and headers.
make_clean_root() {
	fetch fresh_root &&
		if [ "$suite" = trixie ]; then
			echo 'deb http://deb.debian.org/debian trixie-backports main' \
				>>"$root/etc/apt/sources.list" && fetch apt_get update
		fi &&
		# Do not start services in the chroot.
		printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" &&
		chmod +x "$root/usr/sbin/policy-rc.d" &&
		apt_install initramfs-tools systemd-sysv udev kmod linux-image-cloud-amd64 \
			linux-headers-cloud-amd64 &&
		useradd --root "$root" --create-home alice &&
		useradd --root "$root" --create-home bob &&
		tar -C "$root" --one-file-system -cf "$roots/$suite.tmp" . &&
		mv "$roots/$suite.tmp" "$roots/$suite.tar"
}

clean_root() {
	root=$tmp/$suite
	mkdir -p "$root"
	if [ -e "$roots/$suite.tar" ]; then
		tar -C "$root" -xf "$roots/$suite.tar" && fetch apt_get update
	else
		make_clean_root
	fi
}

# Into $debs: another run may build in build/deb, which is for one at a time.
debs=$tmp/debs
build_packages() {
	lock "$htw_tree/lock.packages" && mkdir "$debs" && make deb JAVA=yes REDISMODULE="$HTW_CACHE/redis-source" &&
		find build/deb -maxdepth 1 -type f -exec cp -t "$debs" {} + && unlock
}
