// The fields above the timeline, the tabs, and the keys of the page.
import {byID, element} from "./dom";
import {plural, showCount} from "./format";
import {fit, move, zoom} from "./timeline/hands";
import {Page, sorts} from "./page";
import type {Sort} from "./model/lanes";
import {axisHeight, Timeline} from "./timeline/timeline";
import type {View} from "./view";

const fields = ["query", "min", "max", "thread"] as const;

// startViews makes a tab and a panel for each view.
export function startViews(page: Page, timeline: Timeline, views: View[]): void {
	const {state} = page, tabs = byID("tabs"), panels = byID("panels"), available: string[] = [];
	const draws = views.map(view => {
		const tab = element("button", {role: "tab", id: "tab-" + view.name, "aria-controls": view.name, onclick: () => page.change({tab: view.name})}, view.title);
		const panel = element("section", {role: "tabpanel", id: view.name, "aria-labelledby": tab.id});
		tabs.append(tab);
		panels.append(panel);
		tab.hidden = !!view.unavailable?.(page);
		if (!tab.hidden) available.push(view.name);
		return {view, tab, panel, draw: view.start(page, panel, timeline)};
	});
	tabs.addEventListener("keydown", e => {
		const at = available.indexOf(state.tab), to = ({ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: available.length - 1} as Record<string, number>)[e.key];
		if (to === undefined) return;
		e.preventDefault();
		const next = available[(to + available.length) % available.length]!;
		page.change({tab: next});
		byID("tab-" + next).focus();
	});
	page.onDraw(() => {
		for (const {view, tab, panel, draw} of draws) {
			const chosen = view.name === state.tab;
			panel.hidden = !chosen;
			tab.setAttribute("aria-selected", String(chosen));
			tab.tabIndex = chosen ? 0 : -1;
			panel.setAttribute("aria-busy", String(chosen && page.busy > 0));
			if (chosen) draw();
		}
	});
}

// wrongFields returns the fields with invalid contents, each with the reason.
function wrongFields(page: Page): [string, string][] {
	const wrong: [string, string][] = [], {state, format} = page, time = byID<HTMLInputElement>("time").value;
	for (const name of ["query", "thread"] as const) {
		try {
			Page.expression(state[name]);
		} catch (error) {
			wrong.push([name, (error as Error).message.replace(/^Invalid regular expression: /, "")]);
		}
	}
	for (const name of ["min", "max"] as const) {
		if (state[name].trim() && isNaN(format.parse(state[name]))) wrong.push([name, `${state[name]} is not a time`]);
	}
	if (time.trim() && !format.parseRange(time)) wrong.push(["time", "enter a time range, for example 1.2s - 1.25s"]);
	return wrong;
}

export function startControls(page: Page, timeline: Timeline): void {
	const {state, meta, calls, format} = page, field = (name: string) => byID<HTMLInputElement>(name), order = byID<HTMLSelectElement>("order");
	for (const t of calls.threads) if (t.calls) byID("threads").append(element("option", {value: "^" + Page.escaped(t.name) + "$", label: t.name}));
	for (const name of fields) field(name).addEventListener("input", () => page.change({[name]: field(name).value}));
	field("time").addEventListener("input", () => page.change({selection: format.parseRange(field("time").value)}));
	byID("filter").addEventListener("submit", e => {
		e.preventDefault();
		step(page, timeline, 1);
	});
	byID("clear").addEventListener("click", () => {
		field("time").value = "";
		page.change({query: "", min: "", max: "", thread: "", selection: null});
	});
	byID("theme").addEventListener("click", () => page.change({theme: page.isDark ? "light" : "dark"}));
	const help = byID<HTMLDialogElement>("help");
	byID("help-button").addEventListener("click", () => help.showModal());
	byID("link").addEventListener("click", () => copyLink(page));
	byID("fit-call").addEventListener("click", () => {
		timeline.reveal(state.call);
		page.choose(state.call, true);
	});
	byID("mark-call").addEventListener("click", () => page.markCall());
	byID("call-function").addEventListener("click", () => page.pickFunction(state.func));
	const names: Record<Sort, string> = {trace: "threads as recorded", busy: "busiest threads", blocked: "most blocked threads", name: "threads by name", start: "threads by start", selected: "by selected calls"};
	for (const sort of sorts) if (sort !== "blocked" || meta.offCPU) order.append(element("option", {value: sort}, names[sort]));
	order.addEventListener("change", () => page.change({order: sorts.find(s => s === order.value) ?? "trace", moved: []}));
	const ungrouped = () => timeline.layout.lanes.filter(l => !l.group).flatMap(l => l.threads);
	byID("unfold").addEventListener("click", () => timeline.fold(ungrouped(), true));
	byID("fold").addEventListener("click", () => page.change({unfolded: [], groups: []}));
	byID("unhide").addEventListener("click", () => page.change({hidden: []}));
	startSplitter(timeline);
	startKeys(page, timeline, help);
	addEventListener("hashchange", () => {
		(document.activeElement as HTMLElement | null)?.blur();
		page.followAddress();
	});
	page.onDraw(() => {
		// What the user types stays as it is.
		for (const name of fields) if (document.activeElement !== field(name) && field(name).value !== state[name]) field(name).value = state[name];
		const time = state.selection ? state.selection.map(v => format.exact(v)).join(" - ") : "";
		if (document.activeElement !== field("time") && String(format.parseRange(field("time").value)) !== String(state.selection)) field("time").value = time;
		order.value = state.moved.length ? "" : state.order;
		byID("unhide").hidden = !state.hidden.length;
		byID("unhide").textContent = `show ${plural(state.hidden.length, "hidden thread")}`;
		byID("lanes-controls").hidden = calls.threads.length < 2;
		const wrong = wrongFields(page), found = page.found.get();
		for (const name of [...fields, "time"]) field(name).setAttribute("aria-invalid", String(wrong.some(([of]) => of === name)));
		byID("range").textContent = wrong.length ? wrong.map(([, text]) => text).join("; ") :
			[page.isFiltered && found ? `${showCount(found.count)} of ${showCount(calls.n)} calls` : "",
				meta.left ? `${showCount(calls.n)} of all ${showCount(calls.n + meta.left)} calls are in the page` : ""].filter(text => text).join("; ");
		byID("clear").hidden = !page.isFiltered;
	});
}

// step selects the previous or the next call of the table.
export function step(page: Page, timeline: Timeline, by: number): void {
	const rows = page.listed.get();
	if (!rows?.length) return;
	const at = rows.indexOf(page.state.call), next = rows[at < 0 ? 0 : (at + by + rows.length) % rows.length]!;
	timeline.reveal(next);
	page.choose(next, false);
}

async function copyLink(page: Page): Promise<void> {
	page.writeFragment();
	let text = "copied";
	try {
		await navigator.clipboard.writeText(location.href);
	} catch {
		text = "copy it from the address bar";
	}
	byID("link").textContent = text;
	setTimeout(() => { byID("link").textContent = "copy link"; }, 2000);
}

// startChosen describes the selected call.
export function startChosen(page: Page): void {
	const {calls, format} = page;
	page.onDraw(() => {
		const i = page.state.call, text = byID("chosen-text");
		byID("chosen").hidden = i < 0;
		if (i < 0) return;
		const parent = calls.parentOf(i), parts = page.selfParts(i);
		text.replaceChildren(element("strong", {}, element("bdi", {}, page.nameOf(i).slice(-300))),
			` ${page.showDuration(i)}, self ${format.time(calls.selfOf(i))}${parts && ` (${parts})`}, at ${format.moment(calls.start[i]!)} on `, element("bdi", {}, calls.threadOf(i).name),
			parent >= 0 ? ", called from " : "", element("bdi", {}, parent >= 0 ? page.nameOf(parent).slice(-300) : ""),
			page.endingOf(i) && "; " + page.endingOf(i), page.value(i) ? "; " + page.value(i) : "");
		text.title = [page.fullName(calls.func[i]!), format.date(calls.start[i]!)].join("\n");
	});
}

function startSplitter(timeline: Timeline): void {
	const splitter = byID("splitter"), {pane} = timeline;
	const height = (px: number) => {
		const to = Math.round(Math.max(60, Math.min(px, innerHeight - 210)));
		pane.style.height = 100 * to / innerHeight + "vh";
		splitter.setAttribute("aria-valuenow", String(Math.round(100 * to / innerHeight)));
	};
	splitter.addEventListener("pointerdown", e => splitter.setPointerCapture(e.pointerId));
	splitter.addEventListener("pointermove", e => { if (splitter.hasPointerCapture(e.pointerId)) height(e.clientY - pane.getBoundingClientRect().top); });
	splitter.addEventListener("keydown", e => {
		const by = ({ArrowUp: -20, ArrowDown: 20} as Record<string, number>)[e.key];
		if (by) height(pane.clientHeight + by);
	});
	// A few lanes need little height. Summary rows of all threads have what they need.
	timeline.lay();
	const needs = timeline.height + axisHeight + 1, unfolded = timeline.layout.lanes.some(l => l.unfolded && !l.group);
	height(Math.min(needs, unfolded ? innerHeight * (innerHeight < 600 ? 0.3 : 0.45) + axisHeight : Timeline.room() + axisHeight + 1));
}

function startKeys(page: Page, timeline: Timeline, help: HTMLDialogElement): void {
	const keys: Record<string, (e: KeyboardEvent) => void> = {
		w: () => zoom(page, 0.7), s: () => zoom(page, 1 / 0.7), a: () => move(page, -0.2), d: () => move(page, 0.2), f: () => fit(page), m: () => page.markCall(),
		n: () => step(page, timeline, 1), N: () => step(page, timeline, -1), "?": () => help.showModal(), Backspace: () => page.goBack(),
		"/": e => {
			e.preventDefault();
			byID("query").focus();
		},
		Escape: () => page.change({call: -1, selection: null}),
	};
	addEventListener("keydown", e => {
		if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
		const target = e.target as HTMLElement;
		if (target.tagName === "INPUT" || target.tagName === "SELECT") {
			if (e.key === "Escape") target.blur();
			return;
		}
		if (Object.hasOwn(keys, e.key)) keys[e.key]!(e);
	});
}
