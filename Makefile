# SPDX-License-Identifier: MIT
#
#   make                library and command
#   make modules        kernel modules for the running kernel (or KDIR=...)
#   make cross          library, command and tests for arm64, into $O/arm64
#   make check          all tests, sets itself up (needs root)
#   make check-full     the same and the long runs
#   make demo           see the wrap on an affected kernel in QEMU (needs root)
#   make install        DESTDIR, prefix; `make uninstall` takes it back
#   make dkms-install   the module's source to /usr/src, for dkms
#
# V=1 shows commands; O=DIR builds elsewhere; SANITIZE=address,undefined;
# WERROR=1.

VERSION := $(shell cat VERSION)
SOMAJOR := 1
comma := ,

O	?= build
V	?= 0
CC	?= cc
CFLAGS	?= -O2 -g
WERROR	?=
SANITIZE ?=

prefix	?= /usr/local
bindir	?= $(prefix)/bin
libdir	?= $(prefix)/lib
includedir ?= $(prefix)/include
mandir	?= $(prefix)/share/man
srcdir_dkms ?= /usr/src
udevrulesdir ?= /usr/lib/udev/rules.d
unitdir	?= /usr/lib/systemd/system
INSTALL	?= install
PKG_CONFIG ?= pkg-config

ifeq ($(V),0)
Q := @
say = @printf '  %-7s %s\n' '$(1)' '$(2)';
MAKEFLAGS += --no-print-directory
endif

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
ifneq ($(WERROR),)
warnings += -Werror
endif
ifneq ($(SANITIZE),)
sanitize := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

lib_pkgs  := libibverbs libnl-3.0 libnl-route-3.0 liburcu-bp hiredis zlib
tool_pkgs := jansson libsystemd
# Asked at the first use, and once.
once = $(eval $(1) := $(2))$($(1))
lib_cflags  = $(call once,lib_cflags,$(shell $(PKG_CONFIG) --cflags $(lib_pkgs)))
lib_libs    = $(call once,lib_libs,$(shell $(PKG_CONFIG) --libs $(lib_pkgs)) -ldl -lpthread)
tool_cflags = $(call once,tool_cflags,$(shell $(PKG_CONFIG) --cflags $(tool_pkgs)))
tool_libs   = $(call once,tool_libs,$(shell $(PKG_CONFIG) --libs $(tool_pkgs)))

base_cflags = -std=gnu11 -D_GNU_SOURCE -DMRG_VERSION_STRING='"$(VERSION)"' \
	-Ilib/include -Ilib -Ikmod -fvisibility=hidden -fPIC $(warnings) $(sanitize)

lib_srcs   := $(filter-out lib/tools/% lib/guard/%,$(wildcard lib/*/*.c))
tool_srcs  := $(wildcard lib/tools/*.c)
# `mrguard run' prints the report of a process that runs.
tool_srcs  += $(addprefix lib/guard/,policy.c report.c table.c text.c words.c)
guard_srcs := $(filter-out lib/guard/audit.c,$(wildcard lib/guard/*.c))
unit_srcs  := $(wildcard tests/unit/*.c)

lib_objs   := $(lib_srcs:%.c=$(O)/%.o)
tool_objs  := $(tool_srcs:%.c=$(O)/%.o)
guard_objs := $(guard_srcs:%.c=$(O)/%.o)
unit_bins  := $(unit_srcs:tests/unit/%.c=$(O)/tests/unit/%)

archive := $(O)/libmrguard.a
shlib   := $(O)/libmrguard.so.$(VERSION)
command := $(O)/mrguard
guard   := $(O)/libmrguard-guard.so
audit   := $(O)/libmrguard-audit.so

.PHONY: all cross modules check check-full demo install uninstall dkms-install clean version-check unit bench guest corpus

all: version-check $(archive) $(shlib) $(command) $(guard) $(audit) $(O)/mrguard.pc

$(O)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

$(archive): $(lib_objs)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(shlib): $(lib_objs) lib/libmrguard.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libmrguard.so.$(SOMAJOR) -Wl,--version-script=lib/libmrguard.map \
		$(if $(SANITIZE),,-Wl,-z,defs) $(sanitize) $(CFLAGS) $(LDFLAGS) -o $@ $(lib_objs) $(lib_libs)
	$(Q)ln -sf $(@F) $(O)/libmrguard.so.$(SOMAJOR)
	$(Q)ln -sf $(@F) $(O)/libmrguard.so

# The command uses public functions only, so it is linked to the shared library.
$(command): $(tool_objs) $(shlib)
	$(call say,LD,$@)
	$(Q)$(CC) $(sanitize) $(CFLAGS) $(LDFLAGS) -o $@ $(tool_objs) -L$(O) -lmrguard \
		-Wl,-rpath,'$$ORIGIN' $(tool_libs) $(lib_libs)

# Preloaded into programs of any kind: it needs libc and nothing else.
$(guard): $(guard_objs) $(archive) lib/guard/guard.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,--version-script=lib/guard/guard.map \
		$(if $(SANITIZE),,-Wl,-z,defs) $(sanitize) $(CFLAGS) $(LDFLAGS) -o $@ $(guard_objs) $(archive) -ldl -lpthread

# In a namespace of the loader's own: not even libc.
$(audit): lib/guard/audit.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -fPIC -ffreestanding -fno-stack-protector -fvisibility=hidden \
		-fno-builtin $(warnings) -O2 -g -shared -nostdlib -Wl,-soname,$(@F) -o $@ $<

$(O)/tests/unit/%: tests/unit/%.c $(archive)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) -Itests $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(archive) -lcmocka $(lib_libs) $(tool_libs) -lm

unit: $(unit_bins)

# Figures with a bar, each a test as well.
bench_bins := $(patsubst tests/bench/%.c,$(O)/tests/bench/%,$(wildcard tests/bench/*.c))

$(O)/tests/bench/%: tests/bench/%.c $(archive)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) -Itests $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(archive) -lcmocka $(lib_libs) $(tool_libs) -lm

bench: $(bench_bins)

# The fuzz targets on a corpus alone, for where there is no libFuzzer.
fuzz_bins := $(patsubst tests/fuzz/fuzz_%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

$(O)/tests/fuzz/%: tests/fuzz/fuzz_%.c $(archive)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) -Wno-unused-function $(lib_cflags) -Itests $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(filter %.o,$^) $(archive) -lcmocka $(lib_libs)

$(fuzz_bins): $(O)/tests/fuzz/each.o $(O)/lib/tools/parse.o

corpus: $(fuzz_bins)

# Programs that run in the VM; "make guest" builds all of them.
guest_bins := $(patsubst tests/vm/guest/%.c,$(O)/tests/vm/guest/%,$(wildcard tests/vm/guest/*.c))

# Test code: gives librxe ibv_reg_dmabuf_mr() when preloaded.
shim := $(O)/tests/vm/shim/simnic-verbs.so

$(shim): tests/vm/shim/simnic-verbs.c tests/vm/shim/simnic-verbs.map
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -fPIC $(warnings) $(CFLAGS) -shared \
		-Wl,--version-script=$(word 2,$^) -o $@ $< -ldl

$(O)/tests/vm/guest/%: tests/vm/guest/%.c $(archive) | $(shim)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) -Itests -Itests/kmod $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(archive) -Wl,--as-needed -lcmocka -lrdmacm $(lib_libs) $(tool_libs) -lm

guest: $(guest_bins) $(shim)

# For arm64, by Debian's cross compiler, with its libraries (NAME:arm64).
cross := aarch64-linux-gnu
cross_pkg_config := env PKG_CONFIG_LIBDIR=/usr/lib/$(cross)/pkgconfig:/usr/share/pkgconfig pkg-config
cross_goals ?= all unit guest corpus
cross:
	$(Q)$(MAKE) O=$(O)/arm64 CC=$(cross)-gcc AR=$(cross)-ar PKG_CONFIG='$(cross_pkg_config)' $(cross_goals)

pc_words = sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' \
	-e 's|@includedir@|$(includedir)|' -e 's|@version@|$(VERSION)|'

# Made each time: it depends on prefix.  Install makes its own, for another make
# may be writing this one.
$(O)/mrguard.pc: lib/mrguard.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)$(pc_words) $< > $@

version-check:
	$(Q)tests/lint/version VERSION

KDIR ?= /lib/modules/$(shell uname -r)/build
modules:
	$(Q)$(MAKE) -C kmod KDIR=$(KDIR)

check check-full: FORCE
	$(Q)tests/check $(if $(filter check-full,$@),--full)

demo: FORCE
	$(Q)tests/demo

.PHONY: FORCE
FORCE:

install: all
	$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(includedir)/mrguard
	$(INSTALL) -m 0755 $(shlib) $(DESTDIR)$(libdir)/
	ln -sf libmrguard.so.$(VERSION) $(DESTDIR)$(libdir)/libmrguard.so.$(SOMAJOR)
	ln -sf libmrguard.so.$(VERSION) $(DESTDIR)$(libdir)/libmrguard.so
	$(INSTALL) -m 0644 $(archive) $(DESTDIR)$(libdir)/
	$(INSTALL) -m 0755 $(guard) $(audit) $(DESTDIR)$(libdir)/
	$(pc_words) lib/mrguard.pc.in > $(DESTDIR)$(libdir)/pkgconfig/mrguard.pc
	$(INSTALL) -m 0644 lib/include/mrguard/*.h $(DESTDIR)$(includedir)/mrguard/
	$(INSTALL) -m 0644 kmod/uapi/mrguard.h $(DESTDIR)$(includedir)/mrguard/uapi.h
	$(CC) $(sanitize) $(CFLAGS) $(LDFLAGS) -o $(O)/mrguard.installed $(tool_objs) -L$(O) -lmrguard \
		$(if $(filter /usr/lib%,$(libdir)),,-Wl$(comma)-rpath$(comma)$(libdir)) $(tool_libs) $(lib_libs)
	$(INSTALL) -m 0755 $(O)/mrguard.installed $(DESTDIR)$(bindir)/mrguard
	$(INSTALL) -D -m 0644 udev/mrguard.rules $(DESTDIR)$(udevrulesdir)/90-mrguard.rules
	$(INSTALL) -d $(DESTDIR)$(unitdir)
	sed 's|@bindir@|$(bindir)|' udev/mrguard-check@.service > $(DESTDIR)$(unitdir)/mrguard-check@.service
	for s in 1 3 4 5 7 8; do for m in lib/man/*.$$s; do \
		[ -e "$$m" ] || continue; \
		$(INSTALL) -D -m 0644 $$m $(DESTDIR)$(mandir)/man$$s/$$(basename $$m); done; done
	$(if $(DESTDIR),,-ldconfig)

uninstall:
	rm -f $(DESTDIR)$(bindir)/mrguard $(DESTDIR)$(libdir)/libmrguard.a $(DESTDIR)$(libdir)/libmrguard.so \
		$(DESTDIR)$(libdir)/libmrguard.so.$(SOMAJOR) $(DESTDIR)$(libdir)/libmrguard.so.$(VERSION) \
		$(DESTDIR)$(libdir)/libmrguard-guard.so $(DESTDIR)$(libdir)/libmrguard-audit.so \
		$(DESTDIR)$(libdir)/pkgconfig/mrguard.pc
	rm -rf $(DESTDIR)$(includedir)/mrguard
	rm -f $(DESTDIR)$(udevrulesdir)/90-mrguard.rules $(DESTDIR)$(unitdir)/mrguard-check@.service
	for m in lib/man/*.[1-8]; do [ -e "$$m" ] || continue; \
		rm -f $(DESTDIR)$(mandir)/man$${m##*.}/$$(basename $$m); done

# The module's source where `dkms add mrguard/$(VERSION)` finds it.
dkms_dir = $(DESTDIR)$(srcdir_dkms)/mrguard-$(VERSION)
dkms-install: version-check
	$(INSTALL) -d $(dkms_dir)/kmod/uapi
	$(INSTALL) -m 0644 dkms.conf $(dkms_dir)/
	$(INSTALL) -m 0644 kmod/Kbuild kmod/Makefile kmod/*.[ch] $(dkms_dir)/kmod/
	$(INSTALL) -m 0644 kmod/uapi/mrguard.h $(dkms_dir)/kmod/uapi/

clean:
	rm -rf $(O)

-include $(lib_objs:.o=.d) $(tool_objs:.o=.d) $(guard_objs:.o=.d) $(unit_bins:=.d) $(bench_bins:=.d) $(guest_bins:=.d) $(fuzz_bins:=.d)
