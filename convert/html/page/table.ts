// Tables with only the visible rows in the document.
import {element, name as cutName} from "./dom";
import type {Page} from "./page";

export interface Row extends HTMLDivElement { line: number }

export interface TableOptions {
	titles: HTMLElement[]; label: string; role?: string;
	count: () => number;
	show: (row: Row, line: number) => void; // fills a row
	press: (line: number) => void; // handles the selection of a line
	key?: (e: KeyboardEvent, line: number) => void; // handles other keys
}

export interface Table { draw(): void; reach(line: number): void }

export function virtualTable(parent: HTMLElement, {titles, label, role = "grid", count, show, press, key}: TableOptions): Table {
	const height = 22, most = 1.5e7; // browsers draw nothing below this
	const head = element("div", {class: "row head", role: "row", "aria-rowindex": 1}, ...titles);
	const space = element("div", {class: "space", role: "rowgroup"}), empty = element("p", {class: "empty"}, "none");
	const table = element("div", {class: "table", role, "aria-label": label, tabindex: "0"},
		element("div", {class: "top", role: "rowgroup"}, head), space);
	parent.append(table, empty);
	const pool: Row[] = [];
	let chosen = -1;
	const scale = () => Math.max(1, count() * height / most);
	const room = () => Math.max(height, table.clientHeight - head.offsetHeight);
	function draw(): void {
		const n = count(), lines = Math.min(n, Math.ceil(room() / height) + 1);
		empty.hidden = n > 0;
		table.hidden = n === 0;
		table.setAttribute("aria-rowcount", String(n + 1));
		space.style.height = Math.min(n * height, most) + "px";
		const line = table.scrollTop * scale() / height;
		const first = Math.max(0, Math.min(Math.floor(line), n - lines + 1));
		while (pool.length < lines) {
			const row = element("div", {class: "row", role: "row", id: label.replace(/ /g, "-") + "-row-" + pool.length}) as Row;
			row.addEventListener("click", () => {
				chosen = row.line;
				press(row.line);
			});
			pool.push(row);
			space.append(row);
		}
		table.removeAttribute("aria-activedescendant");
		pool.forEach((row, j) => {
			row.hidden = j >= lines || first + j >= n;
			if (row.hidden) return;
			row.line = first + j;
			row.style.top = (scale() === 1 ? row.line * height : table.scrollTop + (row.line - line) * height) + "px";
			row.setAttribute("aria-rowindex", String(row.line + 2));
			row.classList.toggle("odd", row.line % 2 === 1);
			if (row.line === chosen) table.setAttribute("aria-activedescendant", row.id);
			show(row, row.line);
		});
	}
	function reach(line: number): void {
		chosen = line;
		const top = line * height / scale(), bottom = top + height / scale();
		if (top < table.scrollTop) table.scrollTop = top;
		else if (bottom > table.scrollTop + room()) table.scrollTop = Math.ceil(bottom - room());
	}
	table.addEventListener("scroll", draw);
	table.addEventListener("keydown", e => {
		const n = count(), page = Math.max(1, Math.floor(room() / height) - 1);
		if (!n || e.target !== table || e.ctrlKey || e.metaKey || e.altKey) return;
		const to = ({
			ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: chosen + page, PageUp: chosen - page, Home: 0, End: n - 1,
		} as Record<string, number>)[e.key];
		if (to === undefined) {
			if (key && chosen >= 0 && chosen < n) key(e, chosen);
			return;
		}
		e.preventDefault();
		reach(Math.max(0, Math.min(n - 1, to)));
		press(chosen);
	});
	new ResizeObserver(draw).observe(table);
	return {draw, reach};
}

export const cell = (text: string, name = ""): HTMLElement => element("span", {class: name, role: "gridcell", title: text}, text);

// threadCell shows the name of a thread.
export const threadCell = (text: string): HTMLElement => element("span", {class: "thread", role: "gridcell", title: text}, cutName(text));

// functionCell shows the short name, and the full one if others have the same short name.
export function functionCell(page: Page, f: number, ...before: Node[]): HTMLElement {
	const about = page.meta.functions[f]!, swatch = element("span", {class: "swatch"});
	swatch.style.background = page.theme.functionColor(f);
	const full = about.name.slice(0, 2000), others = about.shared ? [element("bdi", {class: "full-name"}, full)] : [];
	return element("span", {class: "name", role: "gridcell", title: full}, ...before, swatch, cutName(about.short.slice(-2000)), ...others);
}

// shareCell shows a share as a text and a bar.
export function shareCell(text: string, share: number): HTMLElement {
	const e = cell(text, "number narrow share");
	e.style.setProperty("--share", 100 * share + "%");
	return e;
}

// heading makes the title of a column. Clicking it sorts the table.
export function heading(title: string, name: string, press?: () => void): HTMLElement {
	return element("div", {class: name, role: "columnheader"}, press ? element("button", {type: "button", onclick: press}, title) : title);
}

export function markSorted(heading: HTMLElement, sort: boolean, down: boolean): void {
	if (sort) heading.setAttribute("aria-sort", down ? "descending" : "ascending");
	else heading.removeAttribute("aria-sort");
}
