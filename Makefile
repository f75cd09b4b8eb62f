# SPDX-License-Identifier: GPL-2.0-only
# For use from the command line; kbuild reads Kbuild. Variables given on the
# command line (W=1, C=1, LLVM=1, ...) are passed to kbuild.

# KDIR defaults to the headers of the running kernel, else the newest installed.
ifndef KDIR
newest = $(patsubst %/.config,%,$(lastword $(shell printf '%s\n' $(1) | sort -V)))
KDIR := $(wildcard /lib/modules/$(shell uname -r)/build)
ifndef KDIR
KDIR := $(call newest,$(wildcard /lib/modules/*/build/.config))
ifndef KDIR
KDIR := $(call newest,$(wildcard /usr/src/linux-headers-*/.config))
endif
fallback := $(KDIR)
endif
endif

.DEFAULT_GOAL := all
include dist/install.mk

.PHONY: all module lib htwctl wheel look clean help demo kunit vm-test bench bench-scale bench-check bench-wheel torture \
	torture-proof fail-nth kcov-fuzz mutate coverage check check-all check-arch kdir

# dkms's copy of the sources has the module alone.
has_all := $(wildcard tools/htwctl/Makefile)
all: module $(if $(has_all),lib htwctl $(if $(shell command -v python3),wheel))

goals := $(or $(MAKECMDGOALS),all)
# Before anything is built, so that nothing is built in vain. Not by dkms, which looks itself, and
# whose CC is not a compiler's name if dkms was started by a make.
module lib htwctl: | $(if $(has_all),look)
look: export KDIR := $(KDIR)
look:
	@dist/look $(if $(filter all module,$(goals)),module) \
		$(if $(filter $(if $(has_all),all) htwctl,$(goals)),htwctl)

module: kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

lib:
	$(MAKE) -C lib

htwctl:
	$(MAKE) -C tools/htwctl

# The wheel for any program. From files alone: no git, and no kernel's headers.
wheel:
	wheel/amalgamate build/wheel

# kbuild's own clean removes *.mod everywhere, go.mod included, and wants a directory of each
# object; and it needs a kernel's headers.
built_by_kbuild := *.o .*.o *.ko *.mod *.mod.c *.gcno *.i *.s .*.cmd .*.d .tmp_* modules.order Module.symvers
clean:
	rm -f $(foreach dir,. core kunit samples tools/bench/kernel tools/tests/kernel,\
		$(addprefix $(dir)/,$(built_by_kbuild)))
	rm -rf build/lib build/htwctl build/wheel

kdir:
ifeq ($(KDIR),)
	$(error No kernel headers found. On Debian: apt install linux-headers-amd64 or \
	linux-headers-arm64; or give a kernel's build directory as KDIR. The library works \
	without the module, with timers in the process: make lib)
endif
ifdef fallback
	@echo "No headers of the running kernel: using the newest installed, $(KDIR)."
endif

help:
	@echo 'make            build htw.ko for the running kernel, or for KDIR=directory, the library'
	@echo '                and htwctl; or one of them: make module, make lib, make htwctl'
	@echo 'make wheel      the timing wheel as two files for any program: build/wheel/htw_wheel.[hc]'
	@echo 'make clean      remove the built files'
	@echo 'make install    install what make has built, the header, manuals; DESTDIR, prefix'
	@echo '                ($(prefix)); with dkms: make install-dkms-extras; make uninstall'
	@echo 'make deb        Debian packages, in build/deb'
	@echo 'make demo       demonstrate htw in a disposable VM'
	@echo 'make kunit      unit tests, on ARCH=um and x86_64 kernels built for them; on arm64 on its own'
	@echo 'make vm-test    device tests, on Debian kernels in disposable VMs'
	@echo 'make bench      benchmark htw and its peers: build/bench/report.json, plots (an hour);'
	@echo '                KERNEL=7 on Linux 7 instead of 6.12'
	@echo 'make bench-scale  how much more all CPUs of this machine do than one: minutes'
	@echo 'make bench-check  a quick part of the benchmark, against the committed report'
	@echo 'make bench-wheel  compare the wheel by itself with other timer data structures (half an hour):'
	@echo '                PEERS=directory has sources of others, see wheel/bench/run --help'
	@echo 'make torture    use htw in every way at once and account for each timer, in a VM:'
	@echo '                TORTURE="--seconds N --seed S", see tools/torture/run --help'
	@echo 'make torture-proof  show that the torture and the tests find what is broken on purpose'
	@echo 'make fail-nth   make each allocation and each copy of each call fail in turn'
	@echo 'make kcov-fuzz  calls of all kinds, mutated as they reach new code:'
	@echo '                KCOV_FUZZ="--calls N --seed S", see tools/kcov-fuzz/run --help'
	@echo 'make mutate     show that the unit tests find small wrong changes of the sources'
	@echo 'make coverage   which lines and branches the unit tests and the device tests reach'
	@echo 'make check      required of every change, 12 minutes: style, unit tests,'
	@echo '                device tests on Linux 6.12, bench-check; it decides what lands'
	@echo 'make check-all  the rest: all kernels, x86_64 with KASAN and lockdep, the packages'
	@echo 'make check-arch before a release: what takes too long for check-all'
	@echo 'From make demo on, all need Debian 12 or 13 on amd64 or arm64, and install missing packages.'
	@echo 'arm64 lacks some: the bench, coverage, mutate, fail-nth, kcov-fuzz and torture-proof.'

# For $SECONDS.
demo: SHELL := /bin/bash
demo:
	@echo "The VM's clock counts instructions, one per nanosecond, so the figures below do not"
	@echo "depend on the load of this machine."
	@kernel=6.12; if ! tools/deps $$kernel; then \
		kernel=6.1; echo "Linux $$kernel will do, too."; tools/deps $$kernel || exit; \
	fi; prepared=$$SECONDS; tools/vm/run --kernel $$kernel --icount -- htw-demo --seconds 10 && \
	echo "Preparing this machine took $$prepared s, the VM and what it runs $$((SECONDS - prepared)) s."

kunit_kernels = $(if $(filter arm64,$(shell dpkg --print-architecture)),arm64,um x86_64)
kunit:
	tools/deps kunit
	for kernel in $(kunit_kernels); do tools/kunit $$kernel || exit; done

vm-test:
	tools/device-tests 6.1 6.12

bench: KERNEL ?= 6.12
bench:
	tools/deps $(KERNEL) bench kunit plots
	tools/bench/run --kernel $(KERNEL)

bench-scale:
	tools/deps 6.12 bench plots
	tools/bench/run --parts locks,scale

bench-check:
	tools/deps 6.12 bench
	tools/bench/run --check

# With sources of others from the directory PEERS.
bench-wheel:
	tools/deps wheel-peers plots
	wheel/bench/run $(if $(PEERS),--peers $(PEERS))

torture:
	tools/deps 6.12 tests
	tools/torture/run $(TORTURE)

torture-proof:
	tools/torture/proof

fail-nth:
	tools/fail-nth/run

kcov-fuzz:
	tools/kcov-fuzz/run $(KCOV_FUZZ)

mutate:
	tools/mutate $(MUTATE)

coverage:
	tools/coverage

check:
	tools/check

check-all:
	tools/check rest

check-arch:
	tools/check arch
