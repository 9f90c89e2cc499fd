# SPDX-License-Identifier: Apache-2.0
#
# The platforms' smoke tests: one program, run by tests/run-platform.sh.

PLATFORM_SMOKE_OBJS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/platform/smoke_*.c))

# OBJS is not complete yet where fragments are read.
.SECONDEXPANSION:
$(B)/platform_smoke: $(PLATFORM_SMOKE_OBJS) $$(OBJS)
	$(call say,LD,$@)
	$(quiet)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL)

WATCH_CHECK_SRCS := tests/platform/watch_check.c platform/stub_rules.c platform/trap_rules.c
$(B)/watch_check: $(WATCH_CHECK_SRCS) $(HOSTDOC_DEPS)
	@mkdir -p $(@D)
	$(quiet)$(HOSTCC) $(HOSTCFLAGS) -o $@ $(WATCH_CHECK_SRCS)

# A host that forbids something, for tests/platform/choice.sh.
$(B)/deny: tests/platform/deny.c
	@mkdir -p $(@D)
	$(quiet)$(HOSTCC) $(HOSTCFLAGS) -o $@ $<

TEST_DEPS += $(B)/deny $(B)/watch_check $(B)/platform_smoke
