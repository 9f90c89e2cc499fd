/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The style and the script of moat report's page, as they are.
 */
	.section .rodata
	.global g_report_css, g_report_css_end, g_report_js, g_report_js_end
g_report_css:
	.incbin "runtime/report.css"
g_report_css_end:
g_report_js:
	.incbin "runtime/report.js"
g_report_js_end:
	.section .note.GNU-stack, "", @progbits
