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
systemunitdir ?= /usr/lib/systemd/system
sysusersdir ?= /usr/lib/sysusers.d
# Where the python3 in the path looks below prefix.
pythondir ?= $(shell python3 dist/python-dir $(prefix))
# Passed on if set; the parts have the same defaults.
dirs := $(foreach d,prefix bindir includedir libdir pkgconfigdir,\
	$(if $($(d)),$(d)=$($(d))))

version := $(shell cat $(CURDIR)/VERSION)
dkms-source = $(DESTDIR)/usr/src/htw-$(version)
# As uname -r says and modules are built for; Debian 12's make kernelrelease says 6.1.192 for
# 6.1.0-56-amd64, and so does include/config/kernel.release.
release = $(shell sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h)
# Modes depend neither on the caller's umask nor on those of the sources.
put = umask 022 && install -D -m 644

.PHONY: install uninstall install-module uninstall-module install-dkms-extras \
	install-dkms-source install-system install-header install-tools install-lib \
	install-man install-python install-wheel install-rust uninstall-dkms uninstall-extras built-module built-lib built-htwctl no-package

# Nothing is compiled here: make install is for root, and what root has written no later make of the
# user's can replace. All parts are looked for before the first of them is installed.
install: no-package built-module built-lib built-htwctl
	@$(MAKE) --no-print-directory install-module install-parts
uninstall: no-package uninstall-module uninstall-dkms uninstall-extras

# All but the module, which dkms builds and installs.
install-dkms-extras: no-package built-lib built-htwctl
	@$(MAKE) --no-print-directory install-parts

.PHONY: install-parts
install-parts: install-system install-header install-lib install-tools install-man \
	install-python install-wheel

# What dpkg has installed it also removes.
no-package:
	$(if $(DESTDIR),,@! dpkg-query -W -f '$${db:Status-Status}\n' htw-dkms 2>/dev/null | \
		grep -qx installed || { echo "The Debian package htw-dkms is installed: first" \
		"apt purge '*htw*'" >&2; exit 1; })

# That htw.ko is newer than its sources, and for this kernel.
built-module: kdir
	@test -e htw.ko && [ -z "$$(find Kbuild *.[ch] core include \( -name '*.[ch]' -o -name Kbuild \) -newer htw.ko)" ] || \
		{ echo 'The module has not been built since its sources changed: first run make.' >&2; exit 1; }
	@LC_ALL=C tr '\0' '\n' <htw.ko | LC_ALL=C grep -aq '^vermagic=$(release) ' || \
		{ echo 'htw.ko is for another kernel than $(release): first run make.' >&2; exit 1; }

built-lib:
	@$(MAKE) --no-print-directory -C lib built

built-htwctl:
	@$(MAKE) --no-print-directory -C tools/htwctl built

# Run depmod only for this machine, not for a staged install.
install-module: built-module
	rm -f $(DESTDIR)/lib/modules/$(release)/updates/htw.ko*
	$(put) htw.ko $(DESTDIR)/lib/modules/$(release)/updates/htw.ko
	$(if $(DESTDIR),,depmod $(release))

# For all kernels: the one that it was built for need not be the one that runs, or be there.
uninstall-module:
	set -e; for file in $(DESTDIR)/lib/modules/*/updates/htw.ko*; do \
		[ -e "$$file" ] || continue; \
		rm "$$file"; \
		$(if $(DESTDIR),:,release=$${file#/lib/modules/} && depmod "$${release%%/*}"); \
	done

uninstall-dkms:
	$(if $(DESTDIR),,! command -v dkms >/dev/null || \
		! dkms status htw/$(version) | grep -q . || dkms remove htw/$(version) --all)
	rm -rf $(dkms-source)

install-system:
	$(put) dist/60-htw.rules $(DESTDIR)$(udevrulesdir)/60-htw.rules
	$(put) dist/htw-sysusers.conf $(DESTDIR)$(sysusersdir)/htw.conf
	$(put) dist/htw-sysinit.conf $(DESTDIR)$(systemunitdir)/sysinit.target.d/htw.conf

install-header:
	$(put) include/uapi/linux/htw.h $(DESTDIR)$(includedir)/linux/htw.h

install-lib:
	$(MAKE) -C lib $(dirs) install

install-tools:
	$(MAKE) -C tools/htwctl $(dirs) install
	$(put) dist/htwctl.bash-completion $(DESTDIR)$(completionsdir)/htwctl

# Each page into its section, with a link for each further name.
install-man:
	DESTDIR=$(DESTDIR) man/install $(mandir)

# Without python3 nobody can use it.
install-python: $(wildcard lib/python/htw)
	$(if $(and $^,$(pythondir)),install -d $(DESTDIR)$(pythondir)/htw && \
		install -m 644 lib/python/htw/*.py lib/python/htw/py.typed $(DESTDIR)$(pythondir)/htw/)

# Made by make where there is python3.
wheeldir = $(DESTDIR)$(prefix)/share/htw/wheel
install-wheel: $(wildcard build/wheel/htw_wheel*.[ch])
	@[ -z "$^" ] || [ -z "$$(find VERSION htw_wheel.[ch] include/linux/htw_node.h lib/port wheel -type f \
		-newer build/wheel/htw_wheel.c)" ] || \
		{ echo 'build/wheel is not from these sources: first run make.' >&2; exit 1; }
	$(if $^,umask 022 && install -d $(wheeldir)/examples && install -m 644 $^ $(wheeldir) && \
		install -d $(wheeldir)/examples/controller && \
		install -m 644 wheel/examples/*.c* $(wheeldir)/examples && \
		install -m 644 wheel/examples/controller/* $(wheeldir)/examples/controller)

# Not a part of make install. Where Debian's cargo finds crates: a directory there is a crate if it has a file of checksums.
cratesdir = $(DESTDIR)$(prefix)/share/cargo/registry
install-rust: $(wildcard integrations/rust/htw*/Cargo.toml)
	umask 022; set -e; for crate in $(notdir $(patsubst %/Cargo.toml,%,$^)); do \
		rm -rf "$(cratesdir)/$$crate-$(version)"; \
		for file in $$(cd integrations/rust/$$crate && find Cargo.toml build.rs src -type f); do \
			install -D -m 644 integrations/rust/$$crate/$$file "$(cratesdir)/$$crate-$(version)/$$file"; \
		done; \
		sed '/^# For the tests/,$$d' integrations/rust/$$crate/Cargo.toml >"$(cratesdir)/$$crate-$(version)/Cargo.toml"; \
		echo '{"package":null,"files":{}}' >"$(cratesdir)/$$crate-$(version)/.cargo-checksum.json"; \
	done

# The sources for dkms add or dkms install htw/VERSION.
install-dkms-source:
	umask 022 && tools/sync --dkms $(dkms-source)

uninstall-extras:
	rm -f $(DESTDIR)$(udevrulesdir)/60-htw.rules \
		$(DESTDIR)$(systemunitdir)/sysinit.target.d/htw.conf \
		$(DESTDIR)$(sysusersdir)/htw.conf $(DESTDIR)$(includedir)/linux/htw.h \
		$(DESTDIR)$(completionsdir)/htwctl
	rm -rf $(wheeldir) $(cratesdir)/htw-$(version) $(cratesdir)/htw-sys-$(version)
	! [ -d $(dir $(wheeldir)) ] || rmdir --ignore-fail-on-non-empty $(dir $(wheeldir))
	DESTDIR=$(DESTDIR) man/install --remove $(mandir)
	$(MAKE) -C tools/htwctl $(dirs) uninstall
	$(MAKE) -C lib $(dirs) uninstall
	$(if $(wildcard lib/python/htw),$(if $(pythondir),rm -rf $(DESTDIR)$(pythondir)/htw))

# Debian packages, and their source package, built from a copy of the sources, in build/deb/. Needs the packages
# that debian/control names; tools/deps packages installs them. With REDISMODULE=directory, where
# redismodule.h is, also redis-htw; with JAVA=yes, which needs default-jdk-headless, also libhtw-java and libhtw-jni.
comma := ,
empty :=
space := $(empty) $(empty)
.PHONY: deb
deb:
	rm -rf build/deb
	mkdir -p build/deb
	rsync -a --exclude=/.git --exclude=/build --filter=':- .gitignore' ./ build/deb/htw-$(version)/
	$(if $(REDISMODULE),install -D -m 644 $(REDISMODULE)/redismodule.h \
		build/deb/htw-$(version)/debian/redismodule/redismodule.h)
	cd build/deb/htw-$(version) && \
		dpkg-buildpackage -us -uc $(addprefix -P,$(subst $(space),$(comma),$(strip \
			$(if $(REDISMODULE),pkg.htw.redis) $(if $(JAVA),pkg.htw.java))))
	@ls build/deb/*.deb
