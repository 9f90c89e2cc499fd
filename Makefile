# SPDX-License-Identifier: Apache-2.0
#
# moat's one Makefile. `make help` lists the targets.
#
#   make                 build/moat
#   make m=asan unit     any target in another mode: rel dbg asan tsan cov fuzz, each in build/$m
#   make O=/tmp/x        another build root, so that several people can build one tree at once
#   make CC=clang        gcc 12 is the default; both are kept free of warnings
#   make D="base vfs" U=vfs unit
#                        only these source folders, only tests/{unit,race}/*_vfs*.c: for working on
#                        one layer while another does not compile
#   make T='-x --filter=htable/*' unit
#                        arguments for the unit test runner
#
# Sources are found by wildcard: *.c and *.S of each folder in D. Three things are special, and so
# is whatever their owners write into included fragments (see "Hooks for fragments").

SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# --- Modes -------------------------------------------------------------------------------------

MODES := rel dbg asan tsan cov fuzz
m ?= rel
ifeq ($(filter $(m),$(MODES)),)
$(error m=$(m): there are only $(MODES))
endif

O ?= build
B := $(O)/$(m)
# Generated sources and headers; on the include path, so "sentry/x.h" may be $(G)/sentry/x.h.
G := $(B)/gen

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(m),fuzz)
CC := clang
endif
# For programs that run during the build (generators): no sanitizer, no coverage.
HOSTCC ?= $(CC)
IS_CLANG := $(shell $(CC) --version 2>/dev/null | grep -c clang)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wvla -Wundef -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough -Werror
ifeq ($(IS_CLANG),0)
# gcc's -Wpedantic is one switch that also forbids the GNU extensions we use on purpose (statement
# expressions, {} initialisers, case ranges); clang's can be told so. Both compilers see every file
# (make lint runs clang over all), so no pedantic warning is lost.
WARN += -Wlogical-op -Wduplicated-cond -Wno-missing-field-initializers
else
WARN += -Wpedantic -Wno-gnu -Wno-missing-field-initializers -Wthread-safety
endif

HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
SAN :=
OPT := -O2 -g
DEFS :=
# moat itself is optimised as a whole when it is linked: a call of the guest's is served a tenth to a
# seventh faster (docs/ARCHITECTURE.md, Layers). The objects hold ordinary code as well, of which the
# test programs are linked. clang would need another linker for it.
LTO :=
ifeq ($(m)-$(IS_CLANG),rel-0)
LTO := -flto=auto -ffat-lto-objects
endif

ifeq ($(m),dbg)
OPT := -Og -g3
DEFS := -DMOAT_DEBUG
else ifeq ($(m),asan)
OPT := -O1 -g
SAN := -fsanitize=address,undefined -fno-sanitize-recover=all
DEFS := -DMOAT_DEBUG
FORTIFY := -U_FORTIFY_SOURCE
else ifeq ($(m),tsan)
OPT := -O1 -g
SAN := -fsanitize=thread -fno-sanitize-recover=all
DEFS := -DMOAT_DEBUG
FORTIFY := -U_FORTIFY_SOURCE
else ifeq ($(m),cov)
OPT := -O0 -g
# Fibers move between threads: the counters must be atomic to be right.
SAN := --coverage -fprofile-update=atomic
DEFS := -DMOAT_COVERAGE
FORTIFY := -U_FORTIFY_SOURCE
else ifeq ($(m),fuzz)
OPT := -O1 -g
SAN := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
DEFS := -DMOAT_DEBUG -DMOAT_FUZZ
FORTIFY := -U_FORTIFY_SOURCE
endif

# gcc's flow-based warnings go wrong under instrumentation, as its manual says; the rel build has them.
ifneq ($(SAN),)
ifeq ($(IS_CLANG),0)
WARN += -Wno-maybe-uninitialized -Wno-format-truncation -Wno-format-overflow -Wno-stringop-overflow \
	-Wno-stringop-truncation -Wno-array-bounds -Wno-restrict
endif
endif

# --- Sources -----------------------------------------------------------------------------------

D ?= base platform vfs netstack loader sentry runtime
U ?=
# The frozen programs in platform/stub/ and loader/vdso/ are built by their fragments: they are
# freestanding, and get into moat as objects. runtime/main.c has main(), which the tests replace.
MAIN_SRC := $(if $(filter runtime,$(D)),$(wildcard runtime/main.c))
SRCS := $(filter-out $(MAIN_SRC),$(sort $(wildcard $(D:%=%/*.c))))
ASMS := $(sort $(wildcard $(D:%=%/*.S)))
UNIT_SRCS := $(sort $(wildcard tests/unit/*$(U)*.c))
RACE_SRCS := $(sort $(wildcard tests/race/*$(U)*.c))
FUZZ_SRCS := $(sort $(wildcard tests/fuzz/fuzz_*$(U)*.c))

# Hooks for fragments. Each of these files, if it is there, may append to
#   GEN_SRCS    .c files that are generated, as $(G)/…; compiled and linked like any other source
#   GEN_HDRS    headers that are generated, as $(G)/…; made before anything is compiled
#   EXTRA_OBJS  objects with rules of their own, as $(B)/…; linked into moat and into all tests
#   EXTRA_BINS  further programs that belong to `make all`, as $(B)/…
#   PKGS, LIBS  pkg-config modules; libraries that have no pkg-config file
#   PKGS_STATIC, PKGS_HEADERS  modules that are linked into moat; of which only headers are used
#   TEST_DEPS   what `make check` must have built before it runs tests (guest programs)
#   CLEAN       further things for `make clean`
# and may give the rules for them, using $(B), $(G), $(CC), $(HOSTCC), $(HOSTCFLAGS), $(CFLAGS_ALL),
# and $(quiet): use $(quiet) before each command. Write outputs below $(B) only; depend on the
# generator's source; create the folder with `@mkdir -p $(@D)`. A fragment must not define a target
# that a user calls, and its variables start with its own name (STUB_…, VDSO_…, GEN_…).
GEN_SRCS :=
GEN_HDRS :=
EXTRA_OBJS :=
EXTRA_BINS :=
TEST_DEPS :=
CLEAN :=
PKGS :=
# Each shared library costs every run some 50 us at its start. libunwind's archive is not
# position-independent: sentry/crash.c loads it when it is asked for.
PKGS_STATIC := libseccomp libxxhash nettle json-c
PKGS_HEADERS := libunwind-generic libunwind libbsd
# Of libarchive only reading and writing tar is linked: no filters, so none of their libraries but zlib, which the
# linker asks for before it drops what is not used.
LIBS := -l:libarchive.a -l:libz.a -lZydis

quiet := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' '$(1)' '$(2)')

HOSTCFLAGS = -std=gnu17 -O1 -g -D_GNU_SOURCE -I. -I$(G) $(WARN)

# Only what D asks for, so that a fragment that is broken today does not break base's tests.
-include $(wildcard $(D:%=%/*.mk) $(D:%=%/*/*.mk) $(if $(U),,tests/*/*.mk bench/*.mk))

CPPFLAGS_ALL = -D_GNU_SOURCE -I. -I$(G) -include base/own_errno.h $(FORTIFY) $(DEFS) $(PKG_CFLAGS) $(CPPFLAGS)
CFLAGS_ALL = -std=gnu17 $(OPT) $(WARN) $(HARDEN) -fno-omit-frame-pointer -fno-strict-aliasing \
	-pthread $(SAN) $(CFLAGS)
LDFLAGS_ALL = -pthread -pie $(if $(LTO),-fno-lto) -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,noexecstack $(SAN) $(LDFLAGS)
LIBS_ALL = $(PKG_LIBS) $(LIBS)

PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) $(PKGS_STATIC) $(PKGS_HEADERS) 2>/dev/null)
PKG_LIBS := -Wl,-Bstatic $(shell pkg-config --static --libs $(PKGS_STATIC) 2>/dev/null) -Wl,-Bdynamic \
	$(if $(PKGS),$(shell pkg-config --libs $(PKGS) 2>/dev/null))

OBJS := $(SRCS:%.c=$(B)/%.o) $(ASMS:%.S=$(B)/%.o) $(GEN_SRCS:$(G)/%.c=$(B)/gen-o/%.o) $(EXTRA_OBJS)
MAIN_OBJ := $(MAIN_SRC:%.c=$(B)/%.o)
UNIT_OBJS := $(UNIT_SRCS:%.c=$(B)/%.o)
RACE_BINS := $(RACE_SRCS:tests/%.c=$(B)/%)
FUZZ_BINS := $(FUZZ_SRCS:tests/%.c=$(B)/%)

# --- Building ----------------------------------------------------------------------------------

.PHONY: all
all: $(OBJS) $(if $(MAIN_OBJ),$(B)/moat) $(EXTRA_BINS)
ifeq ($(m),rel)
	$(if $(MAIN_OBJ),@ln -sfn rel/moat $(O)/moat)
endif

$(B)/moat: $(OBJS) $(MAIN_OBJ)
	$(call say,LD,$@)
	$(quiet)$(CC) $(filter-out -fno-lto,$(LDFLAGS_ALL)) $(if $(LTO),$(OPT) $(LTO) $(HARDEN) -fno-omit-frame-pointer) \
		-o $@ $^ $(LIBS_ALL)

# Objects are made again when the compiler or its flags change.
FLAGS_NOW := $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(LTO)
$(B)/flags: FORCE
	@mkdir -p $(B)
	@echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' >$@
.PHONY: FORCE
FORCE:

# Kernel code runs on fiber stacks of 64 KiB.
ifeq ($(m),rel)
$(filter-out $(B)/runtime/% $(EXTRA_OBJS),$(OBJS)): CFLAGS_ALL += -Wframe-larger-than=8192
endif

$(filter-out $(EXTRA_OBJS),$(OBJS)) $(MAIN_OBJ): CFLAGS_ALL += $(LTO)

define compile
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(quiet)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
endef

$(B)/%.o: %.c $(B)/flags | $(GEN_HDRS)
	$(compile)
$(B)/%.o: %.S $(B)/flags | $(GEN_HDRS)
	$(compile)
$(B)/gen-o/%.o: $(G)/%.c $(B)/flags | $(GEN_HDRS)
	$(compile)

# --- Tests -------------------------------------------------------------------------------------

# All unit tests are one program, with everything but runtime/main.c: a new tests/unit/test_*.c
# needs no other change. TSan cannot run under Criterion (it forks after threads were made), so there
# tests/unit/plain/criterion/ stands in for it, with one process per test.
ifeq ($(m),tsan)
UNIT_CPPFLAGS := -Itests/unit/plain
UNIT_LIBS := -lm
UNIT_OBJS += $(B)/tests/unit/plain/main.o
else
UNIT_CPPFLAGS := $(shell pkg-config --cflags criterion 2>/dev/null)
UNIT_LIBS := -Wl,-T,tests/unit/keep.ld -lm $(shell pkg-config --libs criterion 2>/dev/null)
endif
$(UNIT_OBJS): CPPFLAGS_ALL += $(UNIT_CPPFLAGS)
# Criterion's macros make non-static functions without a prototype, and clang finds GNU in them.
$(UNIT_OBJS): CFLAGS_ALL += -Wno-missing-prototypes -Wno-format-zero-length $(if $(filter 0,$(IS_CLANG)),,-Wno-pedantic -Wno-thread-safety)

$(B)/unit: $(OBJS) $(UNIT_OBJS)
	$(call say,LD,$@)
	$(quiet)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL) $(UNIT_LIBS)

$(RACE_BINS): $(B)/race/%: $(B)/tests/race/%.o $(OBJS)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(quiet)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL)

# In mode fuzz a fuzzer is libFuzzer's; in all others it replays its corpus.
FUZZ_BOOT := $(B)/tests/unit/kernel_boot.o
$(B)/fuzz/fuzz_syscall: $(FUZZ_BOOT)
$(FUZZ_BINS): $(B)/fuzz/%: $(B)/tests/fuzz/%.o $(OBJS) $(if $(filter-out fuzz,$(m)),$(B)/tests/fuzz/replay.o)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(quiet)$(CC) $(LDFLAGS_ALL) $(if $(filter fuzz,$(m)),-fsanitize=fuzzer) -o $@ $^ $(LIBS_ALL)

# Builds that others wait for use all cores, unless the user said how many.
PARALLEL = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

TEST_ENV = MOAT_BUILD=$(B) MOAT_MODE=$(m) MOAT=$(abspath $(B))/moat \
	MOAT_RACE='$(RACE_BINS)' MOAT_FUZZ='$(FUZZ_BINS)'

.PHONY: unit race fuzz fuzz-short fuzz-build test-build
# EXTRA_BINS: a test compares what the generators make with what is committed.
unit: $(B)/unit $(EXTRA_BINS)
	@$(TEST_ENV) tests/unit/run.sh $(T)
race: $(RACE_BINS)
	@$(TEST_ENV) tests/race/run.sh
fuzz-build: $(FUZZ_BINS)
# fuzz-short is part of check; fuzz goes on for FUZZ_SECONDS each, with a seed of the moment.
fuzz-short:
	@tools/deps.sh build test
	@$(TEST_ENV) tests/run-fuzz-short.sh
fuzz:
	@tools/deps.sh build test
	@$(TEST_ENV) FUZZ_SECONDS=$${FUZZ_SECONDS:-3600} FUZZ_SEED=$${FUZZ_SEED:-0} tests/run-fuzz-short.sh

test-build: all $(B)/unit $(RACE_BINS) $(FUZZ_BINS) $(TEST_DEPS)

# check: everything that fits into 40 minutes. check-quick: two minutes. check-full: also
# tests/full-*.sh. Each suite ends with a line "N passed, N failed"; tests/check.sh sums them up.
.PHONY: check check-quick check-full
check check-quick check-full:
	@tools/deps.sh build unit test
	@$(MAKE) $(PARALLEL) --no-print-directory test-build
	@# tests/hostile/takeover.sh makes host calls inside a sentry that lets it.
	@$(if $(filter-out check-quick,$@),$(MAKE) $(PARALLEL) --no-print-directory m=dbg all)
	@$(TEST_ENV) MOAT_CHECK=$(patsubst check-%,%,$@) tests/check.sh

.PHONY: asan tsan
asan tsan:
	@tools/deps.sh build unit
	@$(MAKE) $(PARALLEL) --no-print-directory m=$@ sanitized

.PHONY: sanitized
sanitized: all $(B)/unit $(RACE_BINS) $(FUZZ_BINS) $(EXTRA_BINS)
	@$(TEST_ENV) MOAT_CHECK=sanitize tests/check.sh

# Coverage of the unit tests and, where moat itself can run, of the guest tests.
.PHONY: coverage
coverage:
	@tools/deps.sh build unit test lint
	@$(MAKE) $(PARALLEL) --no-print-directory m=cov test-build
	@find $(O)/cov -name '*.gcda' -delete
	-@$(MAKE) --no-print-directory m=cov covered
	@gcovr -r . --object-directory $(O)/cov $(D:%=--filter '%/') --print-summary \
		--exclude-unreachable-branches --html-details $(O)/cov/coverage.html | tail -n 60
.PHONY: covered
covered:
	@$(TEST_ENV) MOAT_CHECK=coverage tests/check.sh

.PHONY: demo
demo:
	@tools/deps.sh build demo
	@$(MAKE) $(PARALLEL) --no-print-directory all
	@$(TEST_ENV) tests/demo.sh

# bench: the host, each platform of moat and the peers that are installed, side by side, into
# $(O)/bench (docs/BENCHMARKS.md). QUICK=1 ends within two minutes; T='--phases micro --targets
# moat-ptrace' are arguments for bench/run.py. It goes on without a peer that cannot be installed.
.PHONY: bench
bench:
	@tools/deps.sh build
	@tools/deps.sh bench || echo 'bench: goes on without them' >&2
	@$(MAKE) $(PARALLEL) --no-print-directory all $(BENCH_MICRO)
	@BENCH_COMMAND='make bench$(if $(QUICK), QUICK=1)$(if $(T), T="$(T)")' bench/run.py \
		--moat $(B)/moat --micro $(BENCH_MICRO) --out $(O)/bench $(if $(QUICK),--quick) $(T)

# --- Lint --------------------------------------------------------------------------------------

LINT_C := $(SRCS) $(MAIN_SRC) $(wildcard tests/unit/*.c tests/race/*.c tests/fuzz/*.c bench/*.c platform/stub/*.c loader/vdso/*.c)
LINT_H := $(wildcard $(D:%=%/*.h) platform/stub/*.h loader/vdso/*.h tests/unit/*.h tests/race/*.h)
LINTS := format edges size man spell tsa tidy cppcheck

.PHONY: lint $(LINTS:%=lint-%)
# One after the other, and all of them, so that one run shows everything.
lint:
	@tools/deps.sh build unit lint
	@$(MAKE) --no-print-directory -k $(LINTS:%=lint-%)

lint-format:
	$(call say,LINT,clang-format)
	$(quiet)clang-format --dry-run -Werror $(LINT_C) $(LINT_H)

# Who may include whom (tools/include-edges.txt), and that each header compiles alone; but for those
# without a guard, which are made to be included many times.
lint-edges: $(GEN_HDRS)
	$(call say,LINT,include edges)
	$(quiet)tools/include-edges.sh $(D)
	$(quiet)for h in $$(grep -l '^#ifndef MOAT_' $(wildcard $(D:%=%/*.h))); do \
		echo "#include \"$$h\"" | $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -Wno-unused \
			-fsyntax-only -x c - || { echo "$$h does not compile alone"; exit 1; }; done

lint-size:
	$(call say,LINT,file size and heads)
	$(quiet)tools/source-rules.sh

lint-man:
	$(call say,LINT,man pages)
	$(quiet)set -e; for p in $(wildcard docs/*.[1-8]); do mandoc -T lint -W warning $$p; done

lint-spell:
	$(call say,LINT,codespell)
	$(quiet)codespell -q 3 -I tools/spelling.txt $(wildcard *.md docs tools) $(D) tests bench .ci Makefile

# clang's thread-safety analysis and its pedantic warnings, over every file; no code is made.
lint-tsa: $(GEN_HDRS)
	$(call say,LINT,clang -Wthread-safety)
	$(quiet)printf '%s\n' $(SRCS) $(MAIN_SRC) | xargs -P2 -n8 clang -fsyntax-only -std=gnu17 -Wall -Wextra \
		-Wpedantic -Wno-gnu -Wshadow -Wthread-safety -Wno-missing-field-initializers -Werror \
		-DMOAT_DEBUG $(CPPFLAGS_ALL) $(PKG_CFLAGS)

lint-tidy: $(GEN_HDRS)
	$(call say,LINT,clang-tidy)
	@mkdir -p $(B)
	$(quiet)printf '%s\n' $(SRCS) $(MAIN_SRC) | xargs -P2 -n4 sh -c 'clang-tidy --quiet "$$@" -- \
		-std=gnu17 -DMOAT_DEBUG -Wno-unknown-warning-option $(CPPFLAGS_ALL)' tidy 2>$(B)/tidy.err || \
		{ grep -v 'warnings generated\|^$$' $(B)/tidy.err; exit 1; }

lint-cppcheck: $(GEN_HDRS)
	$(call say,LINT,cppcheck)
	@mkdir -p $(B)/cppcheck
	$(quiet)cppcheck --quiet -j2 --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
		--suppressions-list=tools/cppcheck.txt --cppcheck-build-dir=$(B)/cppcheck \
		--include=/usr/include/bsd/sys/queue.h --include=/usr/include/bsd/sys/tree.h \
		-D__cppcheck__ -D__x86_64__ -D__linux__ -D_GNU_SOURCE -I. -I$(G) $(SRCS) $(MAIN_SRC)

# --- Installing, cleaning ----------------------------------------------------------------------

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/moat
.PHONY: install
install: all
	install -D -m 755 $(B)/moat $(DESTDIR)$(BINDIR)/moat
	$(foreach p,$(wildcard docs/*.[1-8]),install -D -m 644 $(p) $(DESTDIR)$(MANDIR)/man$(patsubst .%,%,$(suffix $(p)))/$(notdir $(p));)
	install -D -m 644 -t $(DESTDIR)$(DOCDIR) README.md docs/*.md

# Installs what is missing of packages.txt; needs root or sudo, and says so.
.PHONY: deps
deps:
	@tools/deps.sh all

.PHONY: clean
clean:
	rm -rf $(O)/rel $(O)/dbg $(O)/asan $(O)/tsan $(O)/cov $(O)/fuzz $(O)/fuzz-found $(O)/fuzz-corpus $(O)/moat $(CLEAN)

.PHONY: help
help:
	@sed -n '3,13s/^# \?//p' Makefile
	@echo 'Targets: all unit race fuzz fuzz-short demo check check-quick check-full asan tsan coverage bench'
	@echo '         lint (or one of $(LINTS:%=lint-%)) install deps clean'

-include $(shell find $(B) -name '*.d' 2>/dev/null)
