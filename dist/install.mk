# SPDX-License-Identifier: GPL-2.0-only
# make install and its parts; included by the Makefile.
#
# Everything is installed below $(DESTDIR), the module included. prefix applies to what
# people and programs use; the directories of udev, systemd and the kernel are fixed.

prefix ?= /usr/local
bindir ?= $(prefix)/bin
includedir ?= $(prefix)/include
mandir ?= $(prefix)/share/man
completionsdir ?= $(prefix)/share/bash-completion/completions
udevrulesdir ?= /usr/lib/udev/rules.d
modulesloaddir ?= /usr/lib/modules-load.d
sysusersdir ?= /usr/lib/sysusers.d
# Passed on if set; the parts have the same defaults.
dirs := $(foreach d,prefix bindir includedir libdir pkgconfigdir,\
	$(if $($(d)),$(d)=$($(d))))

version := $(shell cat $(CURDIR)/VERSION)
dkms-source = $(DESTDIR)/usr/src/htw-$(version)

.PHONY: install uninstall install-module uninstall-module install-dkms-extras \
	install-dkms-source install-system install-header install-tools install-lib \
	install-man uninstall-extras

install: install-module install-dkms-extras
uninstall: uninstall-module uninstall-extras

# All but the module, which dkms builds and installs.
install-dkms-extras: install-system install-header install-lib install-tools install-man

# Run depmod only for this machine, not for a staged install.
install-module: kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(DESTDIR) INSTALL_MOD_DIR=updates \
		modules_install
	$(if $(DESTDIR),,depmod $$($(MAKE) -s --no-print-directory -C $(KDIR) kernelrelease))

uninstall-module: kdir
	release=$$($(MAKE) -s --no-print-directory -C $(KDIR) kernelrelease) && \
	rm -f $(DESTDIR)/lib/modules/$$release/updates/htw.ko* && \
	$(if $(DESTDIR),:,depmod $$release)

install-system:
	install -D -m 644 dist/60-htw.rules $(DESTDIR)$(udevrulesdir)/60-htw.rules
	install -D -m 644 dist/htw-modules-load.conf $(DESTDIR)$(modulesloaddir)/htw.conf
	install -D -m 644 dist/htw-sysusers.conf $(DESTDIR)$(sysusersdir)/htw.conf

install-header:
	install -D -m 644 include/uapi/linux/htw.h $(DESTDIR)$(includedir)/linux/htw.h

install-lib: $(wildcard lib/Makefile)
	$(if $^,$(MAKE) -C lib DESTDIR=$(DESTDIR) $(dirs) install)

install-tools:
	$(MAKE) -C tools/htwctl DESTDIR=$(DESTDIR) $(dirs) install
	install -D -m 644 dist/htwctl.bash-completion $(DESTDIR)$(completionsdir)/htwctl

# Each page into its section, with a link for each further name.
install-man:
	DESTDIR=$(DESTDIR) man/install $(mandir)

# The sources for dkms add or dkms install htw/VERSION.
install-dkms-source:
	tools/sync --dkms $(dkms-source)

uninstall-extras:
	rm -f $(DESTDIR)$(udevrulesdir)/60-htw.rules $(DESTDIR)$(modulesloaddir)/htw.conf \
		$(DESTDIR)$(sysusersdir)/htw.conf $(DESTDIR)$(includedir)/linux/htw.h \
		$(DESTDIR)$(completionsdir)/htwctl
	DESTDIR=$(DESTDIR) man/install --remove $(mandir)
	$(MAKE) -C tools/htwctl DESTDIR=$(DESTDIR) $(dirs) uninstall
	$(if $(wildcard lib/Makefile),$(MAKE) -C lib DESTDIR=$(DESTDIR) $(dirs) uninstall)

# Debian packages, built from a copy of the sources, in build/deb/. Needs the packages
# that debian/control names; tools/deps packages installs them. With REDISMODULE=directory, where
# redismodule.h is, also redis-htw.
.PHONY: deb
deb:
	rm -rf build/deb
	mkdir -p build/deb
	rsync -a --exclude=/.git --exclude=/build --filter=':- .gitignore' ./ build/deb/htw-$(version)/
	$(if $(REDISMODULE),install -D -m 644 $(REDISMODULE)/redismodule.h \
		build/deb/htw-$(version)/debian/redismodule/redismodule.h)
	cd build/deb/htw-$(version) && \
		dpkg-buildpackage -us -uc -b $(if $(REDISMODULE),-Ppkg.htw.redis)
	@ls build/deb/*.deb
