# SPDX-License-Identifier: Apache-2.0
#
# The platform's smoke tests: one program, run by tests/run-platform.sh.

PLATFORM_SMOKE_OBJS := $(patsubst %.c,$(B)/%.o,$(wildcard tests/platform/smoke_*.c))

# OBJS is not complete yet where fragments are read.
.SECONDEXPANSION:
$(B)/ptrace_smoke: $(PLATFORM_SMOKE_OBJS) $$(OBJS)
	$(call say,LD,$@)
	$(quiet)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL)

TEST_DEPS += $(B)/ptrace_smoke
