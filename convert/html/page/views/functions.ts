// The table of functions.
import {element} from "../dom";
import {percent, plural, showCount} from "../format";
import {remembered, type Page} from "../page";
import {cell, functionCell, heading, markSorted, shareCell, virtualTable} from "../table";
import type {AllSums, Sums} from "../model/meta";
import type {View} from "../view";

export type AnySums = Sums & Partial<AllSums>;

// The times of a function, or - if they are unknown.
export const showTotal = (page: Page, s: AnySums): string => s.counted && s.counted === s.calls ? "-" : page.format.time(s.total);
export const showSelf = (page: Page, s: AnySums): string => s.timed === 0 && !s.open ? "-" : page.format.time(s.self);
export const showShare = (page: Page, s: AnySums, time: number): string => showSelf(page, s) === "-" ? "-" : percent(s.self, time);

// Estimates include calls that the recording left out. They are of the whole recording.
export const showAllCalls = (s: AnySums): string => s.allCalls === undefined ? "-" : (s.estimated ? "~" : "") + showCount(s.allCalls);
export const showAllTotal = (page: Page, s: AnySums): string =>
	s.allCalls === undefined || s.timeless ? "-" : (s.allCalls > s.calls - (s.open ?? 0) ? "~" : "") + page.format.time(s.allTotal!);

type Key = "name" | "calls" | "total" | "self" | "cpu" | "max" | "allCalls" | "allTotal";

export const functions: View = {
	name: "functions", title: "functions",
	start(page, panel) {
		const {state, meta} = page, by: {name: Key; down: boolean} = {name: "self", down: true};
		const titles: [Key, string][] = [["name", "function"], ["calls", "calls"], ["total", "total"], ["self", "self"]];
		if (meta.offCPU && meta.octaves) titles.push(["cpu", "self on CPU"]);
		titles.push(["max", "longest"]);
		if (meta.limited) titles.push(["allCalls", "all calls"], ["allTotal", "all total"]);
		const heads = titles.map(([name, title]) => heading(title, name === "name" ? "name" : "number", () => {
			Object.assign(by, by.name === name ? {down: !by.down} : {name, down: name !== "name"});
			page.change({});
		}));
		const bar = element("p", {class: "bar"});
		panel.append(bar);
		let sums = page.functionSums();
		const rows = remembered(() => JSON.stringify([state.thread, state.selection, state.query, by, !!sums, page.summed.current]), () => {
			const wanted = page.matching(), {rank} = page, all: number[] = [], now = sums;
			if (!now) return all;
			const value = (f: number) => by.name === "name" ? 0 : now.of(f)[by.name] ?? 0;
			meta.functions.forEach((_, f) => { if ((now.of(f).allCalls || now.of(f).calls) > 0 && (!wanted || wanted[f])) all.push(f); });
			all.sort((a, b) => value(a) - value(b) || rank[a]! - rank[b]!);
			return by.down ? all.reverse() : all;
		});
		const table = virtualTable(panel, {
			titles: [...heads.slice(0, 4), heading("share", "number narrow"), ...heads.slice(4)], label: "functions", count: () => rows().length,
			show: (row, k) => {
				const f = rows()[k]!, s = sums!.of(f), time = sums!.time;
				row.setAttribute("aria-selected", String(f === state.func));
				row.replaceChildren(functionCell(page, f), cell(showCount(s.calls), "number"), cell(showTotal(page, s), "number"), cell(showSelf(page, s), "number"),
					shareCell(showShare(page, s, time), time > 0 ? s.self / time : 0),
					...(meta.offCPU && meta.octaves ? [cell(s.cpu === undefined || showSelf(page, s) === "-" ? "-" : page.format.time(s.cpu), "number")] : []),
					cell(s.timed === 0 ? "-" : page.format.time(s.max), "number"),
					...(meta.limited ? [showAllCalls(s), showAllTotal(page, s)].map(text => cell(text, "number")) : []));
			},
			press: k => page.change({func: rows()[k]!}),
			key: (e, k) => { if (e.key === "Enter") page.pickFunction(rows()[k]!); },
		});
		panel.addEventListener("dblclick", e => { if ((e.target as Element).closest(".space")) page.pickFunction(state.func); });
		return () => {
			sums = page.functionSums();
			const apart = [meta.left && "calls that are not in the page", meta.pruned && "calls that the recorder dropped",
				meta.counted && "calls that were only counted"].filter(text => text).join(" and ");
			bar.hidden = !apart;
			if (apart) bar.textContent = page.where() + (page.isWhole ? `: all calls, including ${apart}` : page.ofPart());
			heads.forEach((head, k) => markSorted(head, titles[k]![0] === by.name, by.down));
			table.draw();
		};
	},
};

// aboutCalls says how many calls of a function there are.
export const aboutCalls = (n: number): string => n ? plural(n, "call") : "no calls";
