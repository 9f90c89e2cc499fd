# SPDX-License-Identifier: Apache-2.0
#
# The part of docs/SECURITY.md that says what the host's processes may call. It is committed; the build
# makes it anew whenever the tables changed, and a test compares.

HOSTDOC := $(B)/platform/gen/host_doc
HOSTDOC_SRCS := platform/gen/host_doc.c platform/stub_rules.c platform/trap_rules.c
HOSTDOC_DEPS := platform/filter_rule.h platform/platform.h platform/stub/layout.h platform/stub_trap/layout.h \
	platform/sentry_rules.h platform/sentry_filter.h platform/monitor_rules.h platform/monitor_filter.h base/hostcall.def \
	base/host_watch_events.h

$(HOSTDOC): $(HOSTDOC_SRCS) $(HOSTDOC_DEPS)
	@mkdir -p $(@D)
	$(quiet)$(HOSTCC) $(HOSTCFLAGS) -o $@ $(HOSTDOC_SRCS)

$(B)/platform/SECURITY.md: $(HOSTDOC) docs/SECURITY.md
	$(quiet)$(HOSTDOC) docs/SECURITY.md >$@.tmp && mv $@.tmp $@
	$(quiet)cmp -s $@ docs/SECURITY.md || { cp $@ docs/SECURITY.md && touch $@; }
EXTRA_BINS += $(B)/platform/SECURITY.md
TEST_DEPS += $(B)/platform/SECURITY.md

# The sentry's and the monitor's seccomp programs, made by libseccomp while moat is built: to make them takes longer than
# all else of a start.
SENTRYF := $(B)/platform/gen/sentry_filter
$(SENTRYF): platform/gen/sentry_filter.c platform/sentry_rules.h platform/sentry_filter.h platform/filter_rule.h \
		platform/monitor_rules.h platform/monitor_filter.h base/hostcall.def base/host_watch_events.h
	@mkdir -p $(@D)
	$(quiet)$(HOSTCC) $(HOSTCFLAGS) -o $@ platform/gen/sentry_filter.c $$(pkg-config --libs libseccomp)
$(G)/platform/sentry_programs.c: $(SENTRYF)
	@mkdir -p $(@D)
	$(quiet)$(SENTRYF) $(m) >$@.tmp && mv $@.tmp $@
GEN_SRCS += $(G)/platform/sentry_programs.c
