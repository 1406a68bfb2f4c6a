// The timeline: a summary row a thread, or a lane with a row for each depth. Calls and states are drawn as pixels, and
// texts by the canvas. Binary search skips calls narrower than a pixel, so drawing time depends on the number of
// pixels, not of calls.
import {Pixels, fitted, sizeCanvas} from "../canvas";
import {mix, type Theme} from "../color";
import {byID} from "../dom";
import {showCount} from "../format";
import {bound, type Thread} from "../model/calls";
import {layLanes, rowHeight, type Lane, type Layout} from "../model/lanes";
import type {EventMeta} from "../model/meta";
import {firstAfter} from "../model/query";
import {poolParts, Sampler, type States} from "../model/states";
import type {Page} from "../page";

export const axisHeight = 22;

// View maps times to pixels of the canvas.
export interface View { left: number; width: number; perPixel: number; from: number; to: number; x: (v: number) => number }

// Label is a name inside a call.
interface Label { x: number; y: number; width: number; func: number }

export class Timeline {
	readonly canvas = byID<HTMLCanvasElement>("canvas");
	readonly pane = byID("lanes");
	// The gutter shows the names of threads. Without a gutter, they are above the calls.
	gutter = 150;
	layout: Layout = {pinned: [], lanes: [], pinnedHeight: 0, height: 0};
	// range is what the user is selecting, and drop the place to which the user drags a lane.
	range: [number, number] | null = null;
	drop: number | null = null;
	private laid: {key: string; by: unknown} = {key: "", by: undefined};
	private readonly pixels = new Pixels();
	private readonly byThread = new Map<Thread, Lane>();
	private readonly stateCache = new Map<string, {key: string; states: States}>();
	private readonly events: EventMeta[][];
	private readonly deepest: number;

	constructor(readonly page: Page) {
		this.events = page.calls.threads.map(() => []);
		for (const e of page.meta.events) this.events[e.thread]!.push(e);
		this.deepest = page.calls.threads.reduce((most, t) => Math.max(most, t.depth), 1);
		page.onDraw(() => this.draw());
	}

	// above is the height of a lane above its calls: for events, for states, and for the name if there is no gutter.
	get above(): number { return (this.gutter ? 9 : 20) + (this.page.meta.offCPU ? 6 : 0); }

	// busyOf and blockedOf return times of a thread in the whole trace.
	busyOf(t: Thread): number { return Math.max(0, this.timeOf(t, "open") - this.timeOf(t, "inside")); }
	blockedOf(t: Thread): number { return this.timeOf(t, "blocked"); }

	private timeOf(t: Thread, kind: keyof States): number {
		const coarsest = this.page.profiles.get()?.levels[t.index]!.at(-1)![kind];
		return coarsest ? coarsest.reduce((a, b) => a + b, 0) / coarsest.length * this.page.calls.span : 0;
	}

	private weight(t: Thread): number {
		const {order} = this.page.state;
		if (order === "busy") return this.busyOf(t);
		if (order === "blocked") return this.blockedOf(t);
		const rows = this.page.found.get()?.rows;
		return rows ? rows.from[t.row0 + t.depth]! - rows.from[t.row0]! : t.calls;
	}

	// room is the largest height of the lanes that leaves room for the other views.
	static room(): number { return Math.max(120, innerHeight - 240); }

	// lay places the lanes, if something has changed that moves them.
	lay(): void {
		const {state} = this.page, weighs = ["busy", "blocked", "selected"].includes(state.order), by = weighs ? this.page.found.get() : undefined;
		this.gutter = this.canvas.clientWidth < 600 ? 0 : 150;
		const key = JSON.stringify([state.thread, state.order, state.moved, state.pinned, state.hidden, state.groups, state.unfolded, this.gutter, innerHeight, weighs && !!this.page.profiles.get()]);
		if (key === this.laid.key && by === this.laid.by) return;
		this.laid = {key, by};
		this.layout = layLanes({
			threads: this.page.threads(), order: state.order, moved: state.moved, pinned: state.pinned, hidden: state.hidden, groups: state.groups,
			unfolded: state.unfolded, weight: t => this.weight(t), room: Timeline.room(), spare: innerHeight * (innerHeight < 600 ? 0.3 : 0.45), above: this.above,
		});
		this.byThread.clear();
		for (const lane of [...this.layout.lanes, ...this.layout.pinned]) for (const t of lane.threads) this.byThread.set(t, lane);
		for (const lane of [...this.layout.lanes, ...this.layout.pinned]) if (!lane.group) this.byThread.set(lane.threads[0]!, lane);
		byID("tall").style.height = Math.min(this.height, 1.5e7) + "px";
	}

	get height(): number { return this.layout.pinnedHeight + this.layout.height; }

	laneOf(t: Thread): Lane | undefined { return this.byThread.get(t); }

	// scrolled returns how far the lanes are scrolled, in pixels. If they are too tall for the browser's scroll bar,
	// they scroll faster.
	scrolled(): number {
		const {pane} = this, room = pane.scrollHeight - pane.clientHeight;
		return room > 0 ? pane.scrollTop / room * Math.max(0, this.height + axisHeight - pane.clientHeight) : 0;
	}

	scrollTo(y: number): void {
		const {pane} = this, all = this.height + axisHeight - pane.clientHeight;
		if (all > 0) pane.scrollTop = y / all * (pane.scrollHeight - pane.clientHeight);
	}

	// fold folds or unfolds lanes.
	fold(threads: Thread[], unfold: boolean): void {
		const {lanes, pinned} = this.layout, now = new Set([...lanes, ...pinned].filter(l => l.unfolded && !l.group).map(l => l.threads[0]!.index));
		for (const t of threads) {
			if (unfold) now.add(t.index);
			else now.delete(t.index);
		}
		this.page.change({unfolded: Array.from(now)});
	}

	// toggleGroup opens or closes a group.
	toggleGroup(name: string): void {
		const groups = this.layout.lanes.filter(l => l.group && l.unfolded).map(l => l.group);
		this.page.change({groups: groups.includes(name) ? groups.filter(g => g !== name) : [...groups, name]});
	}

	// reveal unfolds the lane of a call and scrolls it into view.
	reveal(i: number): void {
		const {calls, state} = this.page, t = calls.threadOf(i), lane = this.laneOf(t);
		if (!lane) {
			if (!state.hidden.includes(t.index)) return;
			this.page.change({hidden: state.hidden.filter(k => k !== t.index)});
		} else if (lane.group && !lane.unfolded) this.toggleGroup(lane.group);
		if (lane?.group || !lane?.unfolded) this.fold([t], true);
		this.lay();
		const now = this.laneOf(t);
		if (!now || now.pinned) return;
		const y = now.y + this.above + calls.depth[i]! * rowHeight, room = this.pane.clientHeight - axisHeight - this.layout.pinnedHeight;
		if (y < this.scrolled() || y + rowHeight > this.scrolled() + room) this.scrollTo(y - room / 2);
	}

	// top returns where a lane is on the canvas.
	top(lane: Lane): number {
		return axisHeight + lane.y + (this.layout.pinned.includes(lane) ? 0 : this.layout.pinnedHeight - this.scrolled());
	}

	// laneAt returns the lane at a height of the canvas.
	laneAt(y: number): Lane | undefined {
		if (y < axisHeight) return undefined;
		const at = (lanes: Lane[], down: number) => lanes[bound(0, lanes.length, k => lanes[k]!.y + lanes[k]!.height <= down)];
		const down = y - axisHeight, {pinned, lanes, pinnedHeight} = this.layout;
		return down < pinnedHeight ? at(pinned, down) : at(lanes, down - pinnedHeight + this.scrolled());
	}

	// view returns the mapping from times to pixels.
	view(width = this.canvas.clientWidth): View {
		const {state} = this.page, left = this.gutter, perPixel = (state.to - state.from) / Math.max(1, width - left);
		// Align to whole pixels, so that every view draws the same calls.
		const from = Math.round(state.from / perPixel) * perPixel;
		return {left, width, perPixel, from, to: from + (width - left) * perPixel, x: v => left + (v - from) / perPixel};
	}

	// at returns the lane at a point of the canvas, and the call, the event or the wait in it.
	at(x: number, y: number): {lane: Lane | undefined; call: number; event: EventMeta | null; wait: string; gutter: boolean; time: number} {
		const view = this.view(), lane = this.laneAt(y), time = view.from + (x - view.left) * view.perPixel;
		const what = {lane, call: -1, event: null as EventMeta | null, wait: "", gutter: x < view.left, time};
		if (!lane || what.gutter || lane.group) return what;
		const t = lane.threads[0]!, top = y - this.top(lane) - this.above, near = view.perPixel;
		if (top < 0 || !lane.unfolded) what.event = this.events[t.index]!.find(e => Math.abs(e.at - time) <= 4 * near) ?? null;
		if (lane.unfolded && top < 0 && top >= -7) what.wait = this.page.waitParts(t, time - near, time + near);
		if (what.event || top < 0 || !lane.unfolded) return what;
		const {calls} = this.page, depth = Math.floor(top / rowHeight), found = this.page.found.get()?.rows;
		// Calls that match were drawn on top of the others.
		for (const row of found ? [calls.row(t, depth, found), calls.row(t, depth)] : [calls.row(t, depth)]) {
			const k = firstAfter(row, calls, time - near);
			// Of the calls within a pixel, choose the one at this point.
			const over = k + 1 < row.length && calls.start[row[k + 1]!]! <= time ? k + 1 : k;
			if (over < row.length && calls.start[row[over]!]! <= time + near) {
				what.call = row[over]!;
				break;
			}
		}
		return what;
	}

	// statesOf returns the states of the threads of a lane, in pixels of the screen.
	private statesOf(lane: Lane, view: View, scale: number): States {
		const name = lane.group || String(lane.threads[0]!.index), n = Math.ceil((view.width - view.left) * scale), interval = view.perPixel / scale;
		const profiles = this.page.profiles.get(), key = [view.from, interval, n, lane.threads.length, !!profiles].join();
		const known = this.stateCache.get(name);
		if (known?.key === key) return known.states;
		const sampler = new Sampler(this.page.calls, view.from, interval, n);
		// Until the profiles of the whole trace are there, nothing is shown that would take long.
		const pool = profiles?.pools[lane.group];
		if (pool?.threads !== lane.threads.length || !sampler.addProfile(pool.levels, poolParts)) {
			for (const t of lane.threads) if (!profiles ? t.calls < 1e4 : !sampler.addProfile(profiles.levels[t.index]!, profiles.parts)) sampler.add(t);
		}
		const states = sampler.finish();
		this.stateCache.set(name, {key, states});
		return states;
	}

	// kinds returns what the thread of a lane did in the part that is shown, without repetitions.
	kinds(lane: Lane): string[] {
		const states = this.statesOf(lane, this.view(), devicePixelRatio || 1), kinds: string[] = [];
		for (let k = 0; k < states.open.length; k++) if (kindAt(states, k) !== kinds[kinds.length - 1]) kinds.push(kindAt(states, k));
		return kinds;
	}

	private draw(): void {
		this.lay();
		const {g, width, height, scale} = sizeCanvas(this.canvas, false), {pixels, page, layout} = this, view = this.view(width), {theme} = page;
		const marks = page.format.ticks(view.from, view.to, view.perPixel);
		pixels.resize(this.canvas.width, this.canvas.height);
		const device = (v: number) => Math.round(v * scale), faintLine = mix(theme.pixel.back, theme.pixel.line, 0.5);
		pixels.fill(theme.pixel.back, 0, 0, pixels.width, 1);
		for (const {at} of marks.marks) if (view.x(at) >= view.left) pixels.fill(faintLine, device(view.x(at)), 0, 1, 1);
		pixels.repeat(0, pixels.height);
		const labels: Label[] = [], shown: Lane[] = [];
		const drawAll = (lanes: Lane[], from: number, to: number) => {
			const first = bound(0, lanes.length, k => this.top(lanes[k]!) + lanes[k]!.height < from);
			for (let k = first; k < lanes.length && this.top(lanes[k]!) < to; k++) {
				shown.push(lanes[k]!);
				if (lanes[k]!.unfolded && !lanes[k]!.group) this.drawLane(lanes[k]!, from, to, view, scale, theme, labels);
				else this.drawSummary(lanes[k]!, from, to, view, scale, theme);
			}
		};
		const below = axisHeight + layout.pinnedHeight;
		drawAll(layout.pinned, axisHeight, Math.min(height, below));
		drawAll(layout.lanes, below, height);
		pixels.put(g);
		this.drawTexts(g, labels, view, theme);
		for (const lane of shown) {
			g.save();
			g.beginPath();
			g.rect(0, lane.pinned ? axisHeight : below, width, height);
			g.clip();
			this.drawEvents(g, lane, view, theme);
			this.drawName(g, lane, lane.pinned ? axisHeight : below, view, theme);
			g.restore();
		}
		if (layout.pinnedHeight) {
			g.fillStyle = theme.css.faint;
			g.fillRect(0, below - 1, width, 2);
		}
		this.drawChosen(g, height, view, theme);
		this.drawAxis(g, marks, view, theme);
	}

	// drawLane draws the calls of an unfolded thread, and when it was off CPU. Only lines between from and to are drawn.
	private drawLane(lane: Lane, from: number, to: number, view: View, scale: number, theme: Theme, labels: Label[]): void {
		const {pixels, page} = this, {calls} = page, t = lane.threads[0]!, top = this.top(lane) + this.above, device = (v: number) => Math.round(v * scale);
		const found = page.found.get()?.rows ?? null, left = device(view.left), bottom = Math.min(to, top + t.depth * rowHeight);
		for (let d = Math.max(0, Math.floor((from - top) / rowHeight)); d < t.depth && top + d * rowHeight < to; d++) {
			const y = top + d * rowHeight, first = device(Math.max(y, from)), last = device(Math.min(y + rowHeight, to)) - (y + rowHeight < to ? 1 : 0);
			if (first >= last || first >= pixels.height) continue;
			const middle = y + rowHeight / 2, text = middle > from + 4 ? middle : -1;
			this.drawRow(calls.row(t, d), first, left, view, scale, theme, found ? theme.pixel.dim : 0, text, labels);
			if (found) this.drawRow(calls.row(t, d, found), first, left, view, scale, theme, 0, text, labels);
			pixels.repeat(first, last);
		}
		if (!page.meta.offCPU) return;
		const states = this.statesOf(lane, view, scale), stripTop = top - 7, stripFrom = device(Math.max(stripTop, from)), stripTo = device(Math.max(stripTop + 5, from));
		const colors = {running: theme.pixel.running, blocked: theme.pixel.blocked, queued: theme.pixel.queued, recorder: theme.pixel.recorder, unknown: theme.pixel.faint};
		const y = device(Math.max(top, from)), end = device(bottom);
		for (let k = 0, n = states.open.length; k < n;) {
			const kind = kindAt(states, k);
			let after = k + 1;
			while (after < n && kindAt(states, after) === kind) after++;
			if (kind !== "absent") {
				if (stripTo > stripFrom) pixels.fill(colors[kind], left + k, stripFrom, after - k, stripTo - stripFrom);
				// A call that was off CPU is not a solid bar.
				if (kind === "unknown") pixels.hatch(theme.pixel.back, left + k, y, after - k, end - y);
				else if (kind !== "running") {
					const color = mix(theme.pixel.back, colors[kind], 0.4);
					pixels.veil(color, theme.pixel.back, left + k, y, after - k, end - y);
				}
			}
			k = after;
		}
	}

	// drawRow draws the calls of one depth in a line of pixels. It draws calls within a pixel as one.
	private drawRow(row: Uint32Array, y: number, left: number, view: View, scale: number, theme: Theme, dim: number, text: number, labels: Label[]): void {
		const {start, duration, func} = this.page.calls, n = row.length, {from, to} = view, perPixel = view.perPixel / scale;
		const {data, width} = this.pixels, line = y * width + left, most = width - left, colors = theme.functions;
		let k = firstAfter(row, this.page.calls, from), edge = 0;
		while (k < n) {
			const i = row[k]!, s = start[i]!;
			if (s > to) break;
			const x = (s - from) / perPixel, right = x + duration[i]! / perPixel;
			const a = Math.max(Math.round(x), 0), b = Math.min(Math.max(Math.round(right), a + 1), most);
			if (b > edge) {
				const color = dim || colors[func[i]!]!, last = b - a > 3 ? b - 1 : b;
				for (let at = line + Math.max(a, edge), end = line + last; at < end; at++) data[at] = color;
				edge = b;
				if (!dim && text >= 0 && b - a > 24 * scale) labels.push({x: view.left + a / scale, y: text, width: (b - a) / scale, func: func[i]!});
			}
			if (right - x >= 1) {
				k++;
				continue;
			}
			// Continue with the first call that ends on the next pixel.
			const next = from + (Math.floor(x) + 1) * perPixel;
			let step = 1;
			while (k + step < n && start[row[k + step]!]! + duration[row[k + step]!]! < next) step *= 2;
			k = bound(Math.max(k + (step >> 1), k + 1), Math.min(k + step, n), j => start[row[j]!]! + duration[row[j]!]! < next);
		}
	}

	// drawSummary draws what threads did as a stack: on CPU, darker the more calls were open, waiting for the recorder,
	// in the run queue, blocked. The rest is the time in which no call was open.
	private drawSummary(lane: Lane, from: number, to: number, view: View, scale: number, theme: Theme): void {
		const {pixels} = this, states = this.statesOf(lane, view, scale), left = Math.round(view.left * scale), top = this.top(lane) + 1, all = lane.threads.length;
		const first = Math.round(top * scale), last = Math.round((top + lane.height - 2) * scale), h = last - first;
		const lines = [Math.max(first, Math.round(from * scale)), Math.min(last, Math.round(to * scale), pixels.height)] as const;
		const shades = Array.from({length: 16}, (_, k) => mix(theme.pixel.running, theme.pixel.deepest, k / 15)), {data, width} = pixels;
		const {recorder, queued, blocked} = theme.pixel, faint = theme.pixel.faint;
		for (let k = 0, n = Math.min(states.open.length, width - left); k < n; k++) {
			const open = states.open[k]!, running = Math.max(0, open - states.inside[k]!);
			let share = running + states.recorder[k]! + states.queued[k]! + states.blocked[k]! + states.unknown[k]!;
			if (share <= 0) continue;
			const depth = open > 0 ? states.depth[k]! / open : 0, shade = shades[Math.min(15, Math.round(15 * Math.log2(Math.max(depth, 1)) / Math.log2(Math.max(this.deepest, 2))))]!;
			// What there is has at least a line.
			const per = h / all, least = share > 0 ? 1 : 0;
			let end = last, sum = 0;
			for (const [part, color] of [[running, shade], [states.recorder[k]!, recorder], [states.queued[k]!, queued], [states.blocked[k]!, blocked], [states.unknown[k]!, faint]] as const) {
				if (part <= 0) continue;
				sum += part;
				const begin = Math.max(first, Math.min(last - least, last - Math.round(Math.min(sum, all) * per)));
				for (let y = Math.min(end, lines[1]) - 1, stop = Math.max(begin, lines[0]); y >= stop; y--) data[y * width + left + k] = color;
				end = Math.min(end, begin);
			}
		}
	}

	private drawTexts(g: CanvasRenderingContext2D, labels: Label[], view: View, theme: Theme): void {
		g.fillStyle = theme.css.onColor;
		for (const {x, y, width, func} of labels) {
			// The name stays visible as long as its call.
			const visible = Math.max(x, view.left);
			g.fillText(fitted(g, this.page.shortName(func), x + width - visible - 7), visible + 3, y);
		}
	}

	private drawEvents(g: CanvasRenderingContext2D, lane: Lane, {left, perPixel, from, to}: View, {css}: Theme): void {
		if (lane.group) return;
		const events = this.events[lane.threads[0]!.index]!, top = this.top(lane);
		g.fillStyle = css.accent;
		g.strokeStyle = css.back;
		g.lineWidth = 1;
		for (let k = bound(0, events.length, j => events[j]!.at < from - 5 * perPixel); k < events.length && events[k]!.at <= to;) {
			const x = left + (events[k]!.at - from) / perPixel, y = top + 1;
			if (x >= left) {
				g.beginPath();
				g.moveTo(x, y + 7);
				g.lineTo(x - 3.5, y);
				g.lineTo(x + 3.5, y);
				g.closePath();
				g.fill();
				g.stroke();
			}
			const next = events[k]!.at + 3 * perPixel;
			k = bound(k + 1, events.length, j => events[j]!.at < next);
		}
	}

	private drawName(g: CanvasRenderingContext2D, lane: Lane, from: number, {left, width}: View, {css}: Theme): void {
		const top = this.top(lane), {height} = lane;
		const twist = lane.unfolded ? "▾" : "▸";
		const tall = lane.unfolded && !lane.group, name = lane.group ? `${lane.name} (${showCount(lane.threads.length)})` : lane.name;
		if (left) {
			g.fillStyle = lane.pinned ? css.panel : css.back;
			g.fillRect(0, Math.max(top, from), left - 1, height);
			const indent = lane.inGroup ? 30 : 18;
			// The name of a tall lane stays visible.
			const y = tall ? Math.max(top, Math.min(from, top + height - 2 * rowHeight)) + 4 + rowHeight / 2 : top + height / 2;
			g.fillStyle = css.faint;
			g.fillText(twist, indent - 12, y);
			if (tall) g.fillText(fitted(g, showCount(lane.threads[0]!.calls) + (lane.threads[0]!.calls === 1 ? " call" : " calls"), left - indent - 6), indent, y + 15);
			g.fillStyle = css.text;
			g.fillText(fitted(g, name, left - indent - 6), indent, y);
		} else {
			g.fillStyle = css.text;
			g.strokeStyle = css.back;
			g.lineWidth = 3;
			const y = tall ? top + 11 : top + height / 2;
			g.strokeText(`${twist} ${name}`, 4, y);
			g.fillText(`${twist} ${name}`, 4, y);
		}
		g.fillStyle = css.line;
		if (tall || lane.group || height > 15) g.fillRect(0, top + height - 1, width, 1);
		g.fillRect(left - 1, Math.max(top, from), 1, height);
	}

	private drawChosen(g: CanvasRenderingContext2D, height: number, view: View, {css}: Theme): void {
		const {left, width, x} = view, {state, calls, format} = this.page, range = this.range ?? state.selection;
		g.save();
		g.beginPath();
		g.rect(left, 0, width - left, height);
		g.clip();
		if (range) {
			const [a, b] = [x(range[0]), x(range[1])];
			g.globalAlpha = 0.16;
			g.fillStyle = css.accent;
			g.fillRect(a, axisHeight, b - a, height);
			g.globalAlpha = 1;
			g.fillRect(a - 1, axisHeight, 1, height);
			g.fillRect(b, axisHeight, 1, height);
			const label = format.time(range[1] - range[0]), w = g.measureText(label).width + 12;
			const at = Math.max(left, Math.min(width - w, (a + b - w) / 2));
			g.fillRect(at, height - 24, w, 18);
			g.fillStyle = css.back;
			g.fillText(label, at + 6, height - 15);
		}
		const lane = state.call >= 0 ? this.laneOf(calls.threadOf(state.call)) : undefined;
		if (lane) {
			const i = state.call, top = this.top(lane), start = x(calls.start[i]!);
			const tall = lane.unfolded && !lane.group, y = tall ? top + this.above + calls.depth[i]! * rowHeight : top, h = tall ? rowHeight : lane.height - 1;
			const from = Math.max(start, left - 3), to = Math.min(Math.max(x(calls.endOf(i)), start + 3), width + 3);
			g.strokeStyle = css.text;
			g.lineWidth = 2;
			if (y > axisHeight - rowHeight) g.strokeRect(from, y - 0.5, to - from, h);
		}
		if (this.drop !== null) {
			g.fillStyle = css.accent;
			g.fillRect(0, this.drop - 1, width, 3);
		}
		g.restore();
	}

	private drawAxis(g: CanvasRenderingContext2D, {anchor, marks}: {anchor: number; marks: {at: number; label: string}[]}, {left, width, x}: View, {css}: Theme): void {
		g.fillStyle = css.panel;
		g.fillRect(0, 0, width, axisHeight);
		for (const {at, label} of marks) {
			g.fillStyle = css.line;
			g.fillRect(Math.round(x(at)), 0, 1, axisHeight);
			g.fillStyle = css.faint;
			g.fillText(label, x(at) + 4, axisHeight / 2 + 1);
		}
		if (left) {
			g.fillStyle = css.panel;
			g.fillRect(0, 0, left, axisHeight);
			g.fillStyle = css.text;
			if (anchor) g.fillText(fitted(g, this.page.format.moment(anchor), left - 16), 8, axisHeight / 2 + 1);
		}
		g.fillStyle = css.line;
		g.fillRect(0, axisHeight - 1, width, 1);
	}
}

type Kind = "running" | "blocked" | "queued" | "recorder" | "unknown" | "absent";

// kindAt returns what a thread did for most of an interval.
function kindAt(s: States, k: number): Kind {
	const running = Math.max(0, s.open[k]! - s.inside[k]!);
	let kind: Kind = "absent", most = 1 - running - s.blocked[k]! - s.queued[k]! - s.recorder[k]! - s.unknown[k]!;
	for (const [name, share] of [["running", running], ["blocked", s.blocked[k]!], ["queued", s.queued[k]!], ["recorder", s.recorder[k]!], ["unknown", s.unknown[k]!]] as const) {
		if (share > most) [kind, most] = [name, share];
	}
	return kind;
}
