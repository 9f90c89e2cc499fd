# SPDX-License-Identifier: Apache-2.0
#
# The program of micro-operations that bench/run.py runs everywhere: static, so that it needs nothing
# of the root it runs in.

BENCH_MICRO := $(B)/bench/micro

$(BENCH_MICRO): $(sort $(wildcard bench/micro*.c)) bench/micro.h
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(quiet)$(CC) -static -pthread -std=gnu17 -O2 -g -D_GNU_SOURCE -I. $(WARN) -o $@ $(filter %.c,$^)
