// Pointer and keyboard events of the timeline.
import {button, byID, tip} from "../dom";
import {plural} from "../format";
import type {Lane} from "../model/lanes";
import {Page} from "../page";
import type {Timeline} from "./timeline";

export function zoom(page: Page, factor: number, share = 0.5): void {
	const {from, to} = page.state, span = to - from, at = from + span * share;
	page.change({from: at - span * factor * share, to: at + span * factor * (1 - share)});
}

export function move(page: Page, share: number): void {
	const {from, to} = page.state, by = (to - from) * share;
	page.change({from: from + by, to: to + by});
}

// fit shows the selected call, then the selected time range, then the whole trace.
export function fit(page: Page): void {
	const {from, to, call, selection} = page.state;
	if (call >= 0) {
		page.choose(call, true);
		if (page.state.from !== from || page.state.to !== to) return;
	}
	if (selection && (from !== selection[0] || to !== selection[1])) page.change({from: selection[0], to: selection[1]});
	else page.change({from: 0, to: page.calls.span});
}

export function showCallTip(page: Page, e: MouseEvent, i: number): void {
	const {calls, format} = page, parts = page.selfParts(i), parent = calls.parentOf(i);
	tip(e, page.fullName(calls.func[i]!), `${page.showDuration(i)}, self ${format.time(calls.selfOf(i))}`, parts && "self: " + parts,
		`at ${format.moment(calls.start[i]!)}`, format.date(calls.start[i]!), parent >= 0 && "called from " + page.nameOf(parent), page.endingOf(i), page.value(i));
}

export function startTimeline(page: Page, timeline: Timeline): void {
	const {canvas, pane} = timeline, {state, calls, format} = page;
	// What the user drags: from a time, or a lane.
	let drag: {x: number; time: number} | null = null, held: {lane: Lane; y: number} | null = null, dragged = false;
	const timeAt = (x: number) => {
		const view = timeline.view();
		return Math.max(0, Math.min(calls.span, view.from + (x - view.left) * view.perPixel));
	};
	canvas.addEventListener("pointerdown", e => {
		closeMenu();
		if (e.button !== 0 || e.pointerType === "touch") return;
		dragged = false;
		const what = timeline.at(e.offsetX, e.offsetY);
		if (what.gutter) held = what.lane && !what.lane.group ? {lane: what.lane, y: e.offsetY} : null;
		else drag = {x: e.offsetX, time: timeAt(e.offsetX)};
		canvas.setPointerCapture(e.pointerId);
	});
	canvas.addEventListener("pointermove", e => {
		if (held && (timeline.drop !== null || Math.abs(e.offsetY - held.y) > 4)) {
			timeline.drop = dropAt(timeline, e.offsetY).y;
			canvas.style.cursor = "grabbing";
			page.change({});
			tip(e);
			return;
		}
		if (drag && (timeline.range || Math.abs(e.offsetX - drag.x) > 3)) {
			const now = timeAt(e.offsetX);
			timeline.range = [Math.min(drag.time, now), Math.max(drag.time, now)];
			page.change({});
			tip(e);
			return;
		}
		const what = timeline.at(e.offsetX, e.offsetY);
		canvas.style.cursor = what.gutter || what.call >= 0 ? "pointer" : "crosshair";
		if (what.call >= 0) showCallTip(page, e, what.call);
		else if (what.wait) tip(e, "off CPU", what.wait, "before " + format.moment(what.time));
		else if (what.event) tip(e, what.event.text, "at " + format.moment(what.event.at), format.date(what.event.at));
		else if (what.lane && (what.gutter || what.lane.group || !what.lane.unfolded)) showLaneTip(page, timeline, e, what.lane, what.gutter);
		else tip(e);
	});
	canvas.addEventListener("pointerup", e => {
		const {range} = timeline;
		dragged = !!range || timeline.drop !== null;
		if (held && timeline.drop !== null) moveLane(page, timeline, held.lane, dropAt(timeline, e.offsetY).before);
		drag = held = timeline.range = timeline.drop = null;
		if (range && range[0] < range[1]) page.change({selection: range});
	});
	canvas.addEventListener("pointercancel", () => { drag = held = timeline.range = timeline.drop = null; });
	canvas.addEventListener("click", e => {
		if (dragged) return;
		const what = timeline.at(e.offsetX, e.offsetY), {lane} = what;
		if (lane && (what.gutter || lane.group || !lane.unfolded)) toggle(timeline, lane);
		else page.choose(what.call, false);
	});
	canvas.addEventListener("contextmenu", e => {
		const {lane} = timeline.at(e.offsetX, e.offsetY);
		if (!lane) return;
		e.preventDefault();
		tip(e);
		openMenu(page, timeline, lane, e.clientX, e.clientY);
	});
	canvas.addEventListener("pointerleave", e => tip(e));
	canvas.addEventListener("dblclick", e => {
		const {call} = timeline.at(e.offsetX, e.offsetY);
		if (call >= 0) page.choose(call, true);
	});
	canvas.addEventListener("wheel", e => {
		const view = timeline.view();
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) move(page, (e.deltaX || e.deltaY) / 1000);
		else if (e.ctrlKey || e.metaKey) zoom(page, Math.pow(1.002, e.deltaY), Math.max(0, (e.offsetX - view.left) / (view.width - view.left)));
		else return; // the lanes scroll
		e.preventDefault();
	}, {passive: false});
	canvas.addEventListener("keydown", e => {
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		const lane = state.call >= 0 ? timeline.laneOf(calls.threadOf(state.call)) : timeline.layout.lanes[0];
		if (e.key === "l" && lane) {
			const box = canvas.getBoundingClientRect();
			openMenu(page, timeline, lane, box.left + 20, box.top + Math.max(0, timeline.top(lane)));
			return;
		}
		if (!e.key.startsWith("Arrow")) return;
		e.preventDefault();
		if (state.call < 0) {
			if (e.key === "ArrowDown" || e.key === "ArrowUp") timeline.scrollTo(timeline.scrolled() + (e.key === "ArrowDown" ? 40 : -40));
			else move(page, e.key === "ArrowRight" ? 0.2 : -0.2);
			return;
		}
		const next = calls.neighbour(state.call, ({ArrowUp: "outer", ArrowDown: "inner", ArrowLeft: "previous", ArrowRight: "next"} as const)[e.key]!);
		if (next >= 0) {
			timeline.reveal(next);
			page.choose(next, false);
		}
	});
	byID("menu").addEventListener("focusout", e => { if (!byID("menu").contains(e.relatedTarget as Node | null)) closeMenu(); });
	pane.addEventListener("scroll", () => page.change({}));
	new ResizeObserver(() => page.change({})).observe(canvas);
}

function toggle(timeline: Timeline, lane: Lane): void {
	if (lane.group) timeline.toggleGroup(lane.group);
	else timeline.fold(lane.threads, !lane.unfolded);
}

function showLaneTip(page: Page, timeline: Timeline, e: MouseEvent, lane: Lane, gutter: boolean): void {
	const calls = lane.threads.reduce((sum, t) => sum + t.calls, 0), {format, meta} = page, sum = (of: (t: Lane["threads"][number]) => number) => lane.threads.reduce((all, t) => all + of(t), 0);
	tip(e, lane.name, lane.group && plural(lane.threads.length, "thread"), plural(calls, "call"),
		`${format.time(sum(t => timeline.busyOf(t)))} in calls${meta.offCPU ? ` on CPU, ${format.time(sum(t => timeline.blockedOf(t)))} blocked` : ""}`,
		`click to ${lane.group ? (lane.unfolded ? "hide its threads" : "show its threads") : lane.unfolded ? "fold" : "unfold"}` + (gutter ? (lane.group ? "" : ", drag to move") + ", right-click for more" : ""));
}

// dropAt returns where a lane that is dropped at a height goes: before which thread, or after all.
function dropAt(timeline: Timeline, y: number): {y: number; before: number | null} {
	const {lanes} = timeline.layout;
	for (const lane of lanes) {
		if (y < timeline.top(lane) + lane.height / 2) return {y: timeline.top(lane), before: lane.threads[0]!.index};
	}
	const last = lanes[lanes.length - 1];
	return {y: last ? timeline.top(last) + last.height : y, before: null};
}

function moveLane(page: Page, timeline: Timeline, lane: Lane, before: number | null): void {
	const {index} = lane.threads[0]!, order = timeline.layout.lanes.flatMap(l => l.inGroup ? [] : l.threads.map(t => t.index)).filter(k => k !== index);
	const at = before === null ? -1 : order.indexOf(before);
	order.splice(at < 0 ? order.length : at, 0, index);
	page.change({moved: order});
}

const closeMenu = () => { byID("menu").hidden = true; };

// openMenu shows what one can do with a lane.
export function openMenu(page: Page, timeline: Timeline, lane: Lane, x: number, y: number): void {
	const menu = byID("menu"), {state} = page, indices = lane.threads.map(t => t.index), item = (text: string, press: () => void) => {
		const b = button(text, "", () => {
			closeMenu();
			press();
			timeline.canvas.focus();
		});
		b.setAttribute("role", "menuitem");
		return b;
	};
	const only = lane.group ? "^(" + lane.threads.map(t => Page.escaped(t.name)).join("|") + ")$" : "^" + Page.escaped(lane.name) + "$";
	menu.replaceChildren(
		item(lane.group ? (lane.unfolded ? "close the group" : "show its threads") : lane.unfolded ? "fold" : "unfold", () => toggle(timeline, lane)),
		state.thread === only ? item("all threads", () => page.change({thread: ""})) : item(lane.group ? "only these threads" : "only this thread", () => {
			page.change({thread: only});
			if (!lane.group) timeline.fold(lane.threads, true);
		}),
		...(lane.group ? [] : [lane.pinned ? item("unpin", () => page.change({pinned: state.pinned.filter(k => !indices.includes(k))})) :
			item("pin to the top", () => page.change({pinned: [...state.pinned, ...indices]}))]),
		item("hide", () => page.change({hidden: [...state.hidden, ...indices]})),
	);
	menu.hidden = false;
	menu.style.left = Math.min(x, innerWidth - menu.offsetWidth - 4) + "px";
	menu.style.top = Math.min(y, innerHeight - menu.offsetHeight - 4) + "px";
	const items = Array.from(menu.querySelectorAll("button"));
	items[0]!.focus();
	menu.onkeydown = e => {
		const at = items.indexOf(document.activeElement as HTMLButtonElement);
		if (e.key === "Escape") {
			closeMenu();
			timeline.canvas.focus();
		} else if (e.key === "ArrowDown") items[(at + 1) % items.length]!.focus();
		else if (e.key === "ArrowUp") items[(at + items.length - 1) % items.length]!.focus();
		else return;
		e.preventDefault();
		e.stopPropagation();
	};
}
