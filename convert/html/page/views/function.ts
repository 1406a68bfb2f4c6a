// The view of one function: its durations, its slowest calls with the calls inside, and its source.
import {button, element} from "../dom";
import {percent, showCount} from "../format";
import {callTree, type Neighbour} from "../model/query";
import type {Octave} from "../model/meta";
import type {Page} from "../page";
import type {Timeline} from "../timeline/timeline";
import type {View} from "../view";
import {aboutCalls, showAllCalls, showAllTotal, showSelf, showShare, showTotal} from "./functions";

export const oneFunction: View = {
	name: "function", title: "function",
	start(page, panel, timeline) {
		let shown = "";
		panel.tabIndex = 0;
		return () => {
			const {state} = page;
			if (state.func >= 0) page.details.get();
			const key = JSON.stringify([state.func, state.thread, state.selection, state.call, page.isDark, page.details.current, !!page.functionSums(), page.summed.current]);
			if (shown === key) return;
			shown = key;
			showFunction(page, panel, timeline);
		};
	},
};

// plainTable makes a table of texts. The first column may hold elements.
function plainTable(titles: string[], rows: (string | Node)[][]): HTMLElement {
	const head = titles.map((title, k) => element("th", {scope: "col", class: k ? "" : "name"}, title));
	const body = rows.map(([first, ...rest]) => element("tr", {}, element("td", {class: "name"}, first!), ...rest.map(text => element("td", {}, text))));
	return element("div", {class: "wide", tabindex: "0"}, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
}

function showFunction(page: Page, panel: HTMLElement, timeline: Timeline): void {
	const f = page.state.func, {format, meta} = page;
	if (f < 0) {
		panel.replaceChildren(element("p", {class: "empty"}, "Select a call or a function in another view."));
		return;
	}
	const details = page.details.get(), sums = page.functionSums();
	// Until the worker has answered, the view shows what it showed.
	if (!details || details.func !== f || !sums) return;
	const about = meta.functions[f]!, total = sums.of(f), all = page.isWhole ? about.all : null, ended = details.calls - details.open, n = all ? all.timed : ended;
	const open = all ? all.open : details.open, any = all ? all.calls : details.calls, left = element("div", {}, element("h2", {}, about.short.slice(0, 500)));
	const note = (text: string) => left.append(element("p", {class: "faint"}, text));
	if (about.short !== about.name) left.append(element("p", {class: "full"}, about.name));
	if (about.file) note(`${about.file}:${about.line}`);
	const listed = all && any !== details.calls ? `, ${showCount(details.calls)} of them in the page` : all ? "" : page.ofPart();
	left.append(element("p", {}, `${aboutCalls(any)} in ${page.where()}${listed}`), button("list the calls", "show them in the table, longest first", () => page.listCalls(f)));
	if (any) {
		const marks = all ? all.quantiles : details.quantiles;
		left.append(plainTable(["total", "self", "share of all", "shortest", "median", "p90", "p99", "p99.9", "longest"], [[
			showTotal(page, total), showSelf(page, total), showShare(page, total, sums.time), ...(n ? marks.map(v => format.time(v)) : [])]]));
		if (all && meta.offCPU) {
			const titles = ["self on CPU", "blocked", "in the run queue"], times = [all.cpu, all.blocked, all.queued];
			if (all.recorder) {
				titles.push("waiting for the recorder");
				times.push(all.recorder);
			}
			left.append(plainTable(titles, [times.map(v => format.time(v))]));
		}
		if (open) note(`${showCount(open)} still open at the end: not in percentiles and histogram`);
		if (all?.pruned) note(`${showCount(all.pruned)} dropped by the recorder: included only in the number of calls and the total time`);
		if (all?.counted) note(`${showCount(all.counted)} only counted: included only in the number of calls`);
	}
	if (all && meta.limited) left.append(plainTable(["all calls", "±", "all total", "±"],
		[[showAllCalls(all), showCount(all.callsMargin!), showAllTotal(page, all), all.timeless ? "-" : format.time(all.totalMargin!)]]));
	// If the page has all calls, they are more precise than octaves.
	if (n) left.append(element("h3", {}, "durations"), histogram(page, f, all && n !== ended ? all.bins : details.bins));
	const part = meta.left ? " (calls in the page)" : "";
	const rows = (list: Neighbour[]) => list.map(({func, calls, total}) => [func < 0 ? "(outermost)" : link(page, func), showCount(calls), format.time(total)]);
	if (details.callers.length) left.append(element("h3", {}, "called from" + part), plainTable(["function", "calls", "total"], rows(details.callers)));
	if (details.callees.length) left.append(element("h3", {}, "calls" + part), plainTable(["function", "calls", "total"], rows(details.callees)));
	if (about.source) left.append(element("h3", {}, "source"), element("pre", {tabindex: "0", "aria-label": "source"}, about.source));
	const right = element("div", {}), {call} = page.state;
	if (call >= 0 && page.calls.func[call] === f) right.append(element("h3", {}, "selected call"), slowCall(page, timeline, call, true));
	if (details.slowest.length) right.append(element("h3", {}, "slowest calls"));
	details.slowest.forEach((i, k) => right.append(slowCall(page, timeline, i, k === 0)));
	panel.replaceChildren(element("div", {class: "columns"}, left, right));
}

const link = (page: Page, f: number): HTMLElement =>
	element("button", {type: "button", class: "link", title: page.fullName(f), onclick: () => page.pickFunction(f)}, element("bdi", {}, page.shortName(f)));

// histogram draws durations as bars. Click a row to list its calls.
function histogram(page: Page, f: number, rows: Octave[]): HTMLElement {
	const most = Math.max(...rows.map(r => r.n)), {format} = page;
	const list = element("div", {class: "histogram", role: "group", "aria-label": "durations"});
	for (const {from, to, n} of rows) {
		const bar = element("span", {class: "fill"});
		bar.style.width = n ? Math.max(100 * n / most, 0.5) + "%" : "0";
		list.append(element("button", {type: "button", title: "list these calls", onclick: () => page.listCalls(f, {min: format.exact(from), max: format.exact(to)})},
			element("span", {class: "range"}, `${format.time(from)} to ${format.time(to)}`), element("span", {class: "count"}, showCount(n)),
			element("span", {class: "track", "aria-hidden": "true"}, bar)));
	}
	return list;
}

// slowCall shows a call with the calls inside it and their shares.
function slowCall(page: Page, timeline: Timeline, i: number, open: boolean): HTMLElement {
	const {calls, format} = page, summary = element("summary", {}, `${page.showDuration(i)} at ${format.moment(calls.start[i]!)} on `, element("bdi", {}, calls.threadOf(i).name));
	const details = element("details", open ? {open: ""} : {}, summary);
	const fill = () => {
		if (details.childElementCount > 1) return;
		const body = element("tbody");
		for (const {call, depth} of callTree(calls, i)) {
			const name = element("td", {class: "name", title: page.fullName(calls.func[call]!)}, element("bdi", {}, page.nameOf(call)));
			name.style.paddingLeft = 6 + depth * 14 + "px";
			const share = element("td", {class: "share"}, percent(calls.duration[call]!, calls.duration[i]!));
			share.style.setProperty("--share", 100 * calls.duration[call]! / calls.duration[i]! + "%");
			body.append(element("tr", {}, name, element("td", {}, page.showDuration(call)), element("td", {}, format.time(calls.selfOf(call))), share));
		}
		const titles = ["function", "total", "self", "share"].map((t, k) => element("th", {scope: "col", class: k ? "" : "name"}, t));
		details.append(button("show in the timeline", "", () => {
			timeline.reveal(i);
			page.choose(i, true);
		}));
		const parts = page.selfParts(i);
		if (parts) details.append(element("p", {class: "faint"}, "self: " + parts));
		details.append(element("div", {class: "wide", tabindex: "0"}, element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body)));
	};
	details.addEventListener("toggle", fill);
	if (open) fill();
	return details;
}
