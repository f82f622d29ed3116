# SPDX-License-Identifier: MIT
#
#   make                libraries and command
#   make modules        kernel modules for the running kernel (or KDIR=...)
#   make cross          libraries, command and tests for arm64, into $O/arm64
#   make check          all tests, sets itself up (needs root)
#   make check-full     the same and the long runs; PART=NAME one part, see tests/README.md
#   make bench          what things cost: times, judged on a quiet machine
#   make demo           see the wrap on an affected kernel in QEMU (needs root)
#   make install        DESTDIR, prefix; `make uninstall` takes it back
#   make abi-baseline   records the public interface, see tests/abi
#   make dkms-install   the module's source to /usr/src, for dkms
#   make dkms-install-cap   the same for mrguard_cap: see mrguard-cap(8)
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
bashcompletiondir ?= $(prefix)/share/bash-completion/completions
zshcompletiondir ?= $(prefix)/share/zsh/vendor-completions
fishcompletiondir ?= $(prefix)/share/fish/vendor_completions.d
srcdir_dkms ?= /usr/src
udevrulesdir ?= /usr/lib/udev/rules.d
unitdir	?= /usr/lib/systemd/system
INSTALL	?= install
NM	?= nm
OBJCOPY	?= objcopy
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
# These builds also abort at a failure whose words are no sentence.
sanitize := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer -DBASE_CHECK_SENTENCES
endif

core_pkgs     := libibverbs libnl-3.0 zlib
transfer_pkgs := libibverbs libnl-3.0 libnl-route-3.0 liburcu-bp hiredis zlib
tool_pkgs     := jansson libsystemd
# The program that runs the kernel's code: what reads its files is linked to it alone.
kernelcode_libs := -lelf -llzma -lzstd -lz
# Asked at the first use, and once.
once = $(eval $(1) := $(2))$($(1))
lib_cflags  = $(call once,lib_cflags,$(shell $(PKG_CONFIG) --cflags $(transfer_pkgs)))
core_libs   = $(call once,core_libs,$(shell $(PKG_CONFIG) --libs $(core_pkgs)) -ldl -lpthread)
lib_libs    = $(call once,lib_libs,$(shell $(PKG_CONFIG) --libs $(transfer_pkgs)) -ldl -lpthread)
tool_cflags = $(call once,tool_cflags,$(shell $(PKG_CONFIG) --cflags $(tool_pkgs)))
tool_libs   = $(call once,tool_libs,$(shell $(PKG_CONFIG) --libs $(tool_pkgs)))

base_cflags = -std=gnu11 -D_GNU_SOURCE -DMRG_VERSION_STRING='"$(VERSION)"' \
	-Ilib/include -Ilib -Ikmod -fvisibility=hidden -fPIC $(warnings) $(sanitize)

# Two libraries: libmrguard-transfer stands on libmrguard, never the reverse.
# The ground's stateless files are in both.
core_rooms     := base model host walkfile gpu check explain region share pool private
transfer_rooms := registry route directory transfer
core_srcs      := $(wildcard $(core_rooms:%=lib/%/*.c))
transfer_srcs  := $(wildcard $(transfer_rooms:%=lib/%/*.c))
ground_srcs    := $(filter-out lib/base/last_error.c lib/base/version.c,$(wildcard lib/base/*.c))
tool_srcs  := $(wildcard lib/tools/*.c)
# The writer of failures, which no library exports.
tool_srcs  += lib/base/error.c
# `mrguard run' prints the report of a process that runs.
tool_srcs  += $(addprefix lib/guard/,mr_table.c names.c report.c sigsafe.c)
guard_srcs := $(filter-out lib/guard/audit.c,$(wildcard lib/guard/*.c))
kernelcode_srcs := $(wildcard lib/kernelcode/*.c)
unit_srcs  := $(wildcard tests/unit/*.c)

core_objs     := $(core_srcs:%.c=$(O)/%.o)
transfer_objs := $(transfer_srcs:%.c=$(O)/%.o)
ground_objs   := $(ground_srcs:%.c=$(O)/%.o)
lib_objs      := $(core_objs) $(transfer_objs)
tool_objs  := $(tool_srcs:%.c=$(O)/%.o)
guard_objs := $(guard_srcs:%.c=$(O)/%.o)
kernelcode_objs := $(kernelcode_srcs:%.c=$(O)/%.o)
unit_bins  := $(unit_srcs:tests/unit/%.c=$(O)/tests/unit/%)

# All objects with their own names: for our tests and for the guard.
internal := $(O)/internal.a
archives := $(O)/libmrguard.a $(O)/libmrguard-transfer.a
shlib    := $(O)/libmrguard.so.$(VERSION)
shlib_transfer := $(O)/libmrguard-transfer.so.$(VERSION)
shlibs   := $(shlib) $(shlib_transfer)
maps     := lib/libmrguard.map lib/libmrguard-transfer.map
pcs      := $(O)/mrguard.pc $(O)/mrguard-transfer.pc
command  := $(O)/mrguard
kernelcode := $(O)/mrguard-kernelcode
guard    := $(O)/libmrguard-guard.so
audit    := $(O)/libmrguard-audit.so

.PHONY: all cross modules check check-full demo install uninstall dkms-install dkms-install-cap clean version-check unit bench \
	bench-programs guest corpus abi-baseline

all: version-check $(archives) $(shlibs) $(command) $(kernelcode) $(guard) $(audit) $(pcs)

$(O)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

$(internal): $(lib_objs)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

# A program that links an archive sees every global name of it.  So each global
# that is not public is renamed, to mrg_private_NAME.  The members stay apart,
# and the linker takes only those that a program needs: one that makes plans needs
# no libnl.  (A partial link with local symbols would hide names as well, and
# would make one member of them all.)
$(O)/private.syms: $(internal) $(maps)
	$(Q)$(NM) -g --defined-only $< | awk 'NF == 3 { print $$3 }' | LC_ALL=C sort -u >$@.all
	$(Q)sed -n 's/^\t\t\(mrg_[a-z0-9_]*\);$$/\1/p' $(maps) | LC_ALL=C sort -u >$@.public
	$(Q)LC_ALL=C comm -23 $@.all $@.public | sed -n '/^mrg_private_/!s/.*/& mrg_private_&/p' >$@
	$(Q)rm -f $@.all $@.public

# A member is named room-file.o, for several rooms have files of one name.
member = $(@:.a=.members)/$(subst /,-,$(1:$(O)/lib/%=%))
define make_archive
	$(call say,AR,$@)
	$(Q)rm -rf $@ $(@:.a=.members) && mkdir -p $(@:.a=.members)
	$(Q)$(foreach o,$(sort $(filter %.o,$^)),$(OBJCOPY) --redefine-syms=$(O)/private.syms $o $(call member,$o) &&) \
		$(AR) rcsD $@ $(foreach o,$(sort $(filter %.o,$^)),$(call member,$o))
	$(Q)rm -rf $(@:.a=.members)
endef

$(O)/libmrguard.a: $(core_objs) $(O)/private.syms
	$(make_archive)

$(O)/libmrguard-transfer.a: $(transfer_objs) $(ground_objs) $(O)/private.syms
	$(make_archive)

# link_shared NAME: of the objects among the prerequisites, with lib/NAME.map
define link_shared
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(1).so.$(SOMAJOR) -Wl,--version-script=lib/$(1).map \
		$(if $(SANITIZE),,-Wl$(comma)-z$(comma)defs) $(sanitize) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(2)
	$(Q)ln -sf $(@F) $(O)/$(1).so.$(SOMAJOR)
	$(Q)ln -sf $(@F) $(O)/$(1).so
endef

$(shlib): $(core_objs) lib/libmrguard.map
	$(call link_shared,libmrguard,$(core_libs))

$(shlib_transfer): $(transfer_objs) $(ground_objs) lib/libmrguard-transfer.map $(shlib)
	$(call link_shared,libmrguard-transfer,-L$(O) -lmrguard $(lib_libs))

# The command uses public functions only, so it is linked to the shared libraries.
link_command = $(CC) $(sanitize) $(CFLAGS) $(LDFLAGS) -o $@ $(tool_objs) -L$(O) -lmrguard-transfer -lmrguard \
	$(tool_libs) $(lib_libs)

$(command): $(tool_objs) $(shlibs)
	$(call say,LD,$@)
	$(Q)$(link_command) -Wl,-rpath,'$$ORIGIN'

# Without sanitizers, which see to faults and signals themselves.
$(kernelcode_objs): sanitize :=
$(kernelcode): $(kernelcode_objs)
	$(call say,LD,$@)
	$(Q)$(CC) -pie $(CFLAGS) $(LDFLAGS) -o $@ $^ $(kernelcode_libs)

# Where the library looks for it last.
$(O)/lib/walkfile/start.o: base_cflags += -DWALKFILE_LIBDIR='"$(libdir)"'

# Preloaded into programs of any kind: it needs libc and nothing else.
$(guard): $(guard_objs) $(internal) lib/guard/guard.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,--version-script=lib/guard/guard.map \
		$(if $(SANITIZE),,-Wl,-z,defs) $(sanitize) $(CFLAGS) $(LDFLAGS) -o $@ $(guard_objs) $(internal) -ldl -lpthread

# In a namespace of the loader's own: not even libc.
$(audit): lib/guard/audit.c lib/guard/calls.h
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -fPIC -ffreestanding -fno-stack-protector -fvisibility=hidden \
		-fno-builtin -Ilib $(warnings) -O2 -g -shared -nostdlib -Wl,-soname,$(@F) -o $@ $<

$(O)/tests/unit/%: tests/unit/%.c $(internal)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) -Itests $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(internal) -lcmocka $(lib_libs) $(tool_libs) -lm

unit: $(unit_bins)

# Made files for the program that asks the kernel's walk: tests/kernelcode/walk.c.
made_walks := exact truncating unbounded per_entry narrow loops faults calls writes_list writes_iterator \
	reads_canary static_call kasan alternative smashes_stack smashes_caller clobbers system_call leaves recurses
made_dir   := $(O)/tests/kernelcode
$(made_dir)/%.ko: tests/kernelcode/walk.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -ffreestanding -fno-pic -fno-pie -fno-stack-protector \
		-fno-omit-frame-pointer -fno-optimize-sibling-calls -fno-asynchronous-unwind-tables \
		-DWALK=$(patsubst unbounded,truncating -DOLD_ITERATOR,$*) -w -c -o $@ $<

$(O)/tests/unit/walk_file $(O)/tests/bench/walk_file: | $(kernelcode) $(made_walks:%=$(made_dir)/%.ko)

# Figures with a bar, each a test as well.
bench_bins := $(patsubst tests/bench/%.c,$(O)/tests/bench/%,$(wildcard tests/bench/*.c))

$(O)/tests/bench/%: tests/bench/%.c $(internal)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) -Itests $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(internal) -lcmocka $(lib_libs) $(tool_libs) -lm

bench-programs: $(bench_bins)

# `make check' judges what these count; here their times have bars as well.
bench: all bench-programs
	$(Q)MRG_BENCH=1 tests/run --verbose --jobs 1 $(bench_bins)

# The fuzz targets on a corpus alone, for where there is no libFuzzer.
fuzz_bins := $(patsubst tests/fuzz/fuzz_%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

$(O)/tests/fuzz/%: tests/fuzz/fuzz_%.c $(internal)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) -Wno-unused-function $(lib_cflags) -Itests $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(filter %.o,$^) $(internal) -lcmocka $(lib_libs)

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

$(O)/tests/vm/guest/%: tests/vm/guest/%.c $(internal) | $(shim)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(base_cflags) $(lib_cflags) $(tool_cflags) -Itests -Itests/kmod $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< \
		$(internal) -Wl,--as-needed -lcmocka -lrdmacm $(lib_libs) $(tool_libs) -lm

guest: $(guest_bins) $(shim)

# For arm64, by Debian's cross compiler, with its libraries (NAME:arm64).
cross := aarch64-linux-gnu
cross_pkg_config := env PKG_CONFIG_LIBDIR=/usr/lib/$(cross)/pkgconfig:/usr/share/pkgconfig pkg-config
cross_goals ?= all unit guest corpus
cross:
	$(Q)$(MAKE) O=$(O)/arm64 CC=$(cross)-gcc AR=$(cross)-ar NM=$(cross)-nm OBJCOPY=$(cross)-objcopy \
		PKG_CONFIG='$(cross_pkg_config)' $(cross_goals)

pc_words = sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' \
	-e 's|@includedir@|$(includedir)|' -e 's|@version@|$(VERSION)|'

# Made each time: they depend on prefix.  Install makes its own, for another make
# may be writing these.
$(O)/%.pc: lib/%.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)$(pc_words) $< > $@

version-check:
	$(Q)tests/lint/version VERSION

KDIR ?= /lib/modules/$(shell uname -r)/build
modules:
	$(Q)$(MAKE) -C kmod KDIR=$(KDIR)

check check-full: FORCE
	$(Q)tests/check $(if $(filter check-full,$@),$(if $(PART),--part $(PART),--full))

demo: FORCE
	$(Q)tests/demo

.PHONY: FORCE
FORCE:

libraries := libmrguard libmrguard-transfer
units     := mrguard-check@.service mrguard-cap.service
# The command that `all' made looks for the libraries beside itself.
$(O)/mrguard.installed: $(command) FORCE
	$(link_command) $(if $(filter /usr/lib%,$(libdir)),,-Wl$(comma)-rpath$(comma)$(libdir))

# Folders that install(1) makes on the way get their modes from the umask.
INSTALL_AS = umask 022; $(INSTALL)
# make knows no quotes: a space would make two folders of one.
ifneq ($(filter %install dkms-install-cap,$(MAKECMDGOALS)),)
$(foreach v,DESTDIR prefix bindir libdir includedir mandir unitdir udevrulesdir srcdir_dkms,\
	$(if $(word 2,$($(v))),$(error $(v) is "$($(v))", and names with spaces cannot be installed to)))
endif

install: all $(O)/mrguard.installed
	$(INSTALL_AS) -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(includedir)/mrguard
	$(INSTALL_AS) -m 0755 $(shlibs) $(DESTDIR)$(libdir)/
	umask 022; for l in $(libraries); do \
		ln -sf $$l.so.$(VERSION) $(DESTDIR)$(libdir)/$$l.so.$(SOMAJOR) && \
		ln -sf $$l.so.$(VERSION) $(DESTDIR)$(libdir)/$$l.so || exit; done
	$(INSTALL_AS) -m 0644 $(archives) $(DESTDIR)$(libdir)/
	$(INSTALL_AS) -D -m 0755 $(kernelcode) $(DESTDIR)$(libdir)/mrguard/$(notdir $(kernelcode))
	$(INSTALL_AS) -m 0644 $(guard) $(audit) $(DESTDIR)$(libdir)/mrguard/
	for pc in $(notdir $(pcs)); do umask 022; $(pc_words) lib/$$pc.in > $(DESTDIR)$(libdir)/pkgconfig/$$pc || exit; done
	$(INSTALL_AS) -m 0644 lib/include/mrguard/*.h $(DESTDIR)$(includedir)/mrguard/
	$(INSTALL_AS) -m 0644 kmod/uapi/mrguard.h $(DESTDIR)$(includedir)/mrguard/uapi.h
	$(INSTALL_AS) -m 0755 $(O)/mrguard.installed $(DESTDIR)$(bindir)/mrguard
	$(INSTALL_AS) -D -m 0644 lib/completion/mrguard.bash $(DESTDIR)$(bashcompletiondir)/mrguard
	$(INSTALL_AS) -D -m 0644 lib/completion/_mrguard $(DESTDIR)$(zshcompletiondir)/_mrguard
	$(INSTALL_AS) -D -m 0644 lib/completion/mrguard.fish $(DESTDIR)$(fishcompletiondir)/mrguard.fish
	$(INSTALL_AS) -D -m 0644 udev/mrguard.rules $(DESTDIR)$(udevrulesdir)/90-mrguard.rules
	$(INSTALL_AS) -d $(DESTDIR)$(unitdir)
	for u in $(units); do umask 022; sed 's|@bindir@|$(bindir)|' udev/$$u > $(DESTDIR)$(unitdir)/$$u || exit; done
	for s in 1 3 4 5 7 8; do for m in lib/man/*.$$s; do \
		[ -e "$$m" ] || continue; \
		$(INSTALL_AS) -D -m 0644 $$m $(DESTDIR)$(mandir)/man$$s/$$(basename $$m); done; done
	$(if $(DESTDIR),,-ldconfig)

uninstall:
	for l in $(libraries); do cd $(DESTDIR)$(libdir) && \
		rm -f $$l.a $$l.so $$l.so.$(SOMAJOR) $$l.so.$(VERSION) || exit; done
	cd $(DESTDIR)$(libdir)/mrguard && rm -f $(notdir $(kernelcode) $(guard) $(audit)) || :
	rmdir $(DESTDIR)$(libdir)/mrguard 2>/dev/null || :
	rm -f $(DESTDIR)$(bindir)/mrguard $(DESTDIR)$(libdir)/$(notdir $(guard)) $(DESTDIR)$(libdir)/$(notdir $(audit)) \
		$(addprefix $(DESTDIR)$(libdir)/pkgconfig/,$(notdir $(pcs)))
	rm -rf $(DESTDIR)$(includedir)/mrguard
	rm -f $(DESTDIR)$(bashcompletiondir)/mrguard $(DESTDIR)$(zshcompletiondir)/_mrguard \
		$(DESTDIR)$(fishcompletiondir)/mrguard.fish
	rm -f $(DESTDIR)$(udevrulesdir)/90-mrguard.rules $(units:%=$(DESTDIR)$(unitdir)/%)
	for m in lib/man/*.[1-8]; do [ -e "$$m" ] || continue; \
		rm -f $(DESTDIR)$(mandir)/man$${m##*.}/$$(basename $$m); done

# Records the public interface of the version that is open: tests/abi/README.md.
abi-baseline:
	$(Q)tests/abi/gate record

# The modules' source where `dkms add NAME/$(VERSION)` finds it.  The cap is a
# package of its own, by the same dkms.conf with other names.
define install_source
	$(INSTALL_AS) -d $(1)/kmod/uapi
	$(INSTALL_AS) -m 0644 kmod/Kbuild kmod/Makefile kmod/*.[ch] $(1)/kmod/
	$(INSTALL_AS) -m 0644 kmod/uapi/mrguard.h $(1)/kmod/uapi/
endef
dkms_dir = $(DESTDIR)$(srcdir_dkms)/mrguard
dkms-install: version-check
	$(call install_source,$(dkms_dir)-$(VERSION))
	$(INSTALL_AS) -m 0644 dkms.conf $(dkms_dir)-$(VERSION)/

cap_conf = sed -e '/^\#/{/SPDX/!d}' -e '/\[1\]=/d' -e 's/^PACKAGE_NAME=.*/PACKAGE_NAME="mrguard-cap"/' \
	-e 's/^BUILT_MODULE_NAME\[0\]=.*/BUILT_MODULE_NAME[0]="mrguard_cap"/' -e 's/ dkms"$$/ cap"/' -e '/^$$/d'
dkms-install-cap: version-check
	$(call install_source,$(dkms_dir)-cap-$(VERSION))
	umask 022; $(cap_conf) dkms.conf > $(dkms_dir)-cap-$(VERSION)/dkms.conf

clean:
	rm -rf $(O)

-include $(lib_objs:.o=.d) $(tool_objs:.o=.d) $(kernelcode_objs:.o=.d) $(guard_objs:.o=.d) $(unit_bins:=.d) $(bench_bins:=.d) $(guest_bins:=.d) $(fuzz_bins:=.d)
