# SPDX-License-Identifier: Apache-2.0
#
# The vDSO: a shared object of our own, freestanding and never instrumented, embedded in moat as bytes.

VDSO_DIR := $(B)/loader/vdso
VDSO_CFLAGS := -std=gnu17 -O2 -D_GNU_SOURCE -ffreestanding -fno-builtin -fpic -fvisibility=hidden \
	-fno-stack-protector -fno-stack-clash-protection -fcf-protection=none -fno-sanitize=all \
	-fasynchronous-unwind-tables -fno-jump-tables -fno-tree-vectorize -fomit-frame-pointer

$(VDSO_DIR)/vdso.o: loader/vdso/vdso.c base/clock.h base/clock_read.h base/lx_time.h base/lock.h base/lx.h base/types.h loader/vdso/vdso.mk
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(quiet)$(CC) $(VDSO_CFLAGS) $(WARN) -I. -c -o $@ $<

$(VDSO_DIR)/vdso.so: $(VDSO_DIR)/vdso.o loader/vdso/vdso.lds
	$(call say,LD,$@)
	$(quiet)ld -shared -Bsymbolic -soname linux-vdso.so.1 --hash-style=both --eh-frame-hdr --build-id=none \
		-z max-page-size=4096 -z noexecstack --no-undefined -T loader/vdso/vdso.lds -o $@ $<

$(VDSO_DIR)/image.o: loader/vdso/image.S $(VDSO_DIR)/vdso.so
	$(call say,AS,$<)
	$(quiet)$(CC) -DVDSO_SO='"$(VDSO_DIR)/vdso.so"' -c -o $@ $<

EXTRA_OBJS += $(VDSO_DIR)/image.o
