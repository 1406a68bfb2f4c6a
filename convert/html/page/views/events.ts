// The table of custom and typed events, and marks.
import {remembered} from "../page";
import {cell, heading, threadCell, virtualTable} from "../table";
import type {View} from "../view";

export const events: View = {
	name: "events", title: "events",
	unavailable: page => !page.meta.events.length,
	start(page, panel) {
		const {state, meta} = page;
		const titles = ([["number start", "time"], ["thread", "thread"], ["name", "event"]] as const).map(([name, title]) => heading(title, name));
		const chosen = remembered(() => state.thread + state.selection, () => {
			const [a, b] = state.selection ?? [-Infinity, Infinity], of = new Set(page.threads().map(t => t.index));
			return meta.events.filter(e => (of.has(e.thread) || !state.thread) && e.at >= a && e.at <= b);
		});
		let last = -1;
		const table = virtualTable(panel, {
			titles, label: "events", count: () => chosen().length,
			show: (row, k) => {
				const e = chosen()[k]!;
				row.setAttribute("aria-selected", String(k === last));
				row.replaceChildren(cell(page.format.moment(e.at), "number start"), threadCell(meta.threads[e.thread]!.name), cell(e.text, "name"));
			},
			press: k => {
				last = k;
				const span = state.to - state.from, {at} = chosen()[k]!;
				page.change({from: at - span / 2, to: at + span / 2});
			},
		});
		return () => table.draw();
	},
};
