# SPDX-License-Identifier: Apache-2.0
#
# The trap platform's stub: freestanding, at a fixed address, embedded in moat. Flags as of the other stub
# (platform/stub/stub.mk says why).

TSTUB_DIR := $(B)/platform/stub_trap
TSTUB_CFLAGS := -std=gnu17 -O2 -ffreestanding -fno-builtin -fpie -mgeneral-regs-only -mno-red-zone \
	-fno-stack-protector -fno-stack-clash-protection -fcf-protection=none -fno-asynchronous-unwind-tables \
	-fno-unwind-tables -fno-sanitize=all -ffunction-sections -fno-jump-tables -fno-tree-vectorize \
	-fno-strict-aliasing
TSTUB_HDRS := platform/platform.h base/clock.h base/clock_read.h base/lx_time.h platform/stub_trap/layout.h platform/stub_trap/guest.h platform/stub/layout.h platform/stub/order.h \
	platform/stub/keeper.h
TSTUB_OBJS := $(TSTUB_DIR)/entry.o $(TSTUB_DIR)/fast_entry.o $(TSTUB_DIR)/fast.o $(TSTUB_DIR)/answer.o $(TSTUB_DIR)/guest.o $(TSTUB_DIR)/keeper.o

$(TSTUB_DIR)/%.o: platform/stub_trap/%.c $(TSTUB_HDRS) platform/stub_trap/stub_trap.mk
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(quiet)$(CC) $(TSTUB_CFLAGS) $(WARN) -I. -c -o $@ $<

$(TSTUB_DIR)/entry.o: platform/stub_trap/entry.S $(TSTUB_HDRS) platform/stub_trap/stub_trap.mk
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(quiet)$(CC) -I. -c -o $@ $<

$(TSTUB_DIR)/fast_entry.o: platform/stub_trap/fast_entry.S $(TSTUB_HDRS) platform/stub_trap/stub_trap.mk
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(quiet)$(CC) -I. -c -o $@ $<

$(TSTUB_DIR)/stub.lds: platform/stub_trap/stub.lds $(TSTUB_HDRS)
	@mkdir -p $(@D)
	$(quiet)$(CC) -E -P -x c -D__ASSEMBLER__ -I. -o $@ $<

$(TSTUB_DIR)/stub.elf: $(TSTUB_OBJS) $(TSTUB_DIR)/stub.lds
	$(call say,LD,$@)
	$(quiet)ld -static -nostdlib -no-pie -z noexecstack -z max-page-size=4096 --build-id=none -s \
		-T $(TSTUB_DIR)/stub.lds -o $@ $(TSTUB_OBJS)

$(TSTUB_DIR)/image.o: platform/stub_trap/image.S $(TSTUB_DIR)/stub.elf
	$(call say,AS,$<)
	$(quiet)$(CC) -DTSTUB_ELF='"$(TSTUB_DIR)/stub.elf"' -c -o $@ $<

EXTRA_OBJS += $(TSTUB_DIR)/image.o
