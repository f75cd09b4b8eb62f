# SPDX-License-Identifier: GPL-2.0-only
# For people; kbuild itself reads Kbuild. Every variable given on the command
# line (W=1, C=1, LLVM=1, ...) reaches kbuild.

# Without KDIR: the running kernel's headers, else the newest that are here.
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

.PHONY: all clean help demo kunit vm-test bench bench-check check check-all kdir

all: kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

clean: kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) clean

kdir:
ifeq ($(KDIR),)
	$(error No kernel headers found. On Debian: apt install linux-headers-amd64; \
	or give a kernel's build directory as KDIR)
endif
ifdef fallback
	@echo "No headers of the running kernel: using $(KDIR), the newest that are installed."
endif

help:
	@echo 'make            build htw.ko for the running kernel, or for KDIR=directory'
	@echo 'make clean      remove what that built'
	@echo 'make install    install the module, htwctl, the header, manuals; DESTDIR, prefix'
	@echo '                ($(prefix)); with dkms: make install-dkms-extras; make uninstall'
	@echo 'make deb        Debian packages, in build/deb'
	@echo 'make demo       show htw at work, in a throw-away VM'
	@echo 'make kunit      unit tests, on a kernel built for them (ARCH=um, then x86_64)'
	@echo 'make vm-test    device tests, on real kernels in throw-away VMs'
	@echo 'make bench      what htw and its peers cost: build/bench/report.json and plots (an hour)'
	@echo 'make bench-check  a quick part of it, against the committed report'
	@echo 'make check      what every change must pass, in a quarter of an hour: build, style,'
	@echo '                unit tests, device tests on Linux 6.12, bench-check'
	@echo 'make check-all  the rest: all kernels, x86_64 with KASAN and lockdep'
	@echo 'All from make demo on need Debian 12; each installs what it needs and is missing.'

demo:
	@echo "The VM's clock counts instructions, one a nanosecond: whatever else this machine"
	@echo "does, the figures below are the same."
	@tools/vm/run --icount -- htw-demo

kunit:
	tools/deps kunit
	tools/kunit um
	tools/kunit x86_64

vm-test:
	tools/device-tests 6.1 6.12

bench:
	tools/deps 6.12 bench kunit plots
	tools/bench/run

bench-check:
	tools/deps 6.12 bench
	tools/bench/run --check

check:
	tools/check

check-all:
	tools/check rest
