# SPDX-License-Identifier: Apache-2.0
#
# What is generated from the syscall table beyond re-inclusion: the numbers that the host's header knows, as a
# list of HOST_NR(name, number) for sentry/syscall.c to assert, and the page docs/SYSCALLS.md.

GEN_HDRS += $(G)/sentry/host_nr.h

# Numbers above the table's are those of a newer header than the table knows: not an error.
$(G)/sentry/host_nr.h: sentry/gen.mk
	@mkdir -p $(@D)
	$(quiet)echo '#include <asm/unistd_64.h>' | $(CC) -E -dM - | \
		awk '$$2 ~ /^__NR_/ && $$3 ~ /^[0-9]+$$/ && $$3 <= 470 {printf "HOST_NR(%s, %s)\n", substr($$2, 6), $$3}' | \
		sort >$@.tmp && test -s $@.tmp && mv $@.tmp $@

GEN_SYSCALLS := $(B)/sentry/gen/syscalls_doc
GEN_TABLE := sentry/syscalls.def sentry/argkinds.h sentry/syscall_rows.h sentry/syscall_protos.h

$(GEN_SYSCALLS): sentry/gen/syscalls_doc.c $(GEN_TABLE)
	@mkdir -p $(@D)
	$(quiet)$(HOSTCC) $(HOSTCFLAGS) -o $@ $<

# The page is committed; the build makes it anew whenever the table changed, and a test compares.
$(B)/sentry/SYSCALLS.md: $(GEN_SYSCALLS)
	$(quiet)$(GEN_SYSCALLS) >$@.tmp && mv $@.tmp $@
	$(quiet)cmp -s $@ docs/SYSCALLS.md || cp $@ docs/SYSCALLS.md
EXTRA_BINS += $(B)/sentry/SYSCALLS.md
TEST_DEPS += $(B)/sentry/SYSCALLS.md
