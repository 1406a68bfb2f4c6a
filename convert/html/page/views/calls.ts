// The table of calls.
import {columns, type Page} from "../page";
import {cell, functionCell, heading, markSorted, threadCell, virtualTable} from "../table";
import type {Column} from "../model/query";
import type {View} from "../view";

const titles: Record<Column, [string, string]> = {
	function: ["function", "name"], thread: ["thread", "thread"], start: ["start", "number start"], duration: ["duration", "number"],
	self: ["self", "number"], depth: ["depth", "number narrow"], parent: ["called from", "name"],
};

const fallsFirst: Column[] = ["duration", "self", "depth"];

export const calls: View = {
	name: "calls", title: "calls",
	start(page: Page, panel) {
		const {state, calls} = page, listed = () => page.listed.get() ?? new Uint32Array(0);
		const heads = columns.map(column => {
			const head = heading(...titles[column], () => page.change(state.sort === column ? {down: !state.down} : {sort: column, down: fallsFirst.includes(column)}));
			head.dataset.name = column;
			return head;
		});
		const table = virtualTable(panel, {
			titles: heads, label: "calls", count: () => listed().length,
			show: (row, k) => {
				const i = listed()[k]!, parent = calls.parentOf(i);
				row.setAttribute("aria-selected", String(i === state.call));
				row.replaceChildren(functionCell(page, calls.func[i]!), threadCell(calls.threadOf(i).name), cell(page.format.moment(calls.start[i]!), "number start"),
					cell(page.showDuration(i), "number"), cell(page.format.time(calls.selfOf(i)), "number"), cell(String(calls.depth[i]), "number narrow"),
					parent < 0 ? cell("", "name") : functionCell(page, calls.func[parent]!));
			},
			press: k => page.choose(listed()[k]!, false),
			key: (e, k) => { if (e.key === "Enter") page.choose(listed()[k]!, true); },
		});
		let shown = -1, of: Uint32Array | null = null;
		return () => {
			for (const head of heads) markSorted(head, head.dataset.name === state.sort, state.down);
			if (state.call !== shown || of !== listed()) {
				const moved = state.call !== shown || state.call >= 0;
				[shown, of] = [state.call, listed()];
				const line = moved && shown >= 0 ? of.indexOf(shown) : -1;
				if (line >= 0) table.reach(line);
			}
			table.draw();
		};
	},
};
