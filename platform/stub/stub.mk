# SPDX-License-Identifier: Apache-2.0
#
# The stub: a freestanding program at a fixed address, embedded in moat. It is never instrumented and its
# flags are its own: no stack protector (there is no TLS), no vector registers (they are the guest's),
# no endbr (its entry slots are small), position-independent code (it lives above 2 GiB).

STUB_DIR := $(B)/platform/stub
STUB_CFLAGS := -std=gnu17 -O2 -ffreestanding -fno-builtin -fpie -mgeneral-regs-only -mno-red-zone \
	-fno-stack-protector -fno-stack-clash-protection -fcf-protection=none -fno-asynchronous-unwind-tables \
	-fno-unwind-tables -fno-sanitize=all -ffunction-sections -fno-jump-tables -fno-tree-vectorize
STUB_HDRS := platform/stub/layout.h platform/stub/order.h platform/stub/keeper.h

$(STUB_DIR)/keeper.o: platform/stub/keeper.c $(STUB_HDRS) platform/stub/stub.mk
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(quiet)$(CC) $(STUB_CFLAGS) $(WARN) -I. -c -o $@ $<

$(STUB_DIR)/entry.o: platform/stub/entry.S $(STUB_HDRS) platform/stub/stub.mk
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(quiet)$(CC) -I. -c -o $@ $<

$(STUB_DIR)/stub.lds: platform/stub/stub.lds $(STUB_HDRS)
	@mkdir -p $(@D)
	$(quiet)$(CC) -E -P -x c -D__ASSEMBLER__ -I. -o $@ $<

$(STUB_DIR)/stub.elf: $(STUB_DIR)/entry.o $(STUB_DIR)/keeper.o $(STUB_DIR)/stub.lds
	$(call say,LD,$@)
	$(quiet)ld -static -nostdlib -no-pie -z noexecstack -z max-page-size=4096 --build-id=none -s \
		-T $(STUB_DIR)/stub.lds -o $@ $(STUB_DIR)/entry.o $(STUB_DIR)/keeper.o

$(STUB_DIR)/image.o: platform/stub/image.S $(STUB_DIR)/stub.elf
	$(call say,AS,$<)
	$(quiet)$(CC) -DSTUB_ELF='"$(STUB_DIR)/stub.elf"' -c -o $@ $<

EXTRA_OBJS += $(STUB_DIR)/image.o
