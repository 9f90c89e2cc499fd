# SPDX-License-Identifier: Apache-2.0
#
# What the assembler includes, -MMD does not see.

$(B)/runtime/report_assets.o: runtime/report.css runtime/report.js
