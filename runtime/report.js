// SPDX-License-Identifier: Apache-2.0
"use strict";
// The page is whole without this: it only adds searching and copying.
for (const box of document.querySelectorAll("input[data-for]")) {
	const part = document.getElementById(box.dataset.for);
	const said = box.nextElementSibling;
	const items = [...part.querySelectorAll("[data-item]")].map((e) => [e, e.textContent.toLowerCase()]);
	const groups = [...part.querySelectorAll("details.dir")].map((e) => [e, e.open]);
	box.hidden = false;
	box.addEventListener("input", () => {
		const want = box.value.trim().toLowerCase();
		let shown = 0;
		for (const [e, text] of items) {
			e.hidden = want !== "" && !text.includes(want);
			shown += !e.hidden;
		}
		for (const [e, open] of groups) {
			e.hidden = !e.querySelector("[data-item]:not([hidden])");
			e.open = want !== "" ? !e.hidden : open;
		}
		said.textContent = want === "" ? "" : shown + " of " + items.length;
	});
}
if (navigator.clipboard) {
	for (const button of document.querySelectorAll("button[data-copy]")) {
		button.hidden = false;
		button.addEventListener("click", () => {
			navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => {
				button.textContent = "copied";
			});
		});
	}
}
