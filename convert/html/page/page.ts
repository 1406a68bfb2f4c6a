// The page's state and what all views share.
import {Theme} from "./color";
import type {Engine} from "./engine";
import {Format, plural, showCount} from "./format";
import {abandoned, bound, continued, ends, inferred, tailExit, truncated, type Calls, type Thread} from "./model/calls";
import type {Meta} from "./model/meta";
import {sumsOf, type Column, type Filter, type Found, type Scope, type Summed} from "./model/query";
import {Tree} from "./model/tree";
import type {AllSums, Sums} from "./model/meta";
import type {Sort} from "./model/lanes";

// State is what the user selected. It is in the fragment of the address, so a link shows others the same view, and
// the browser's history can return to it.
export interface State {
	tab: string; query: string; min: string; max: string; thread: string;
	from: number; to: number; // what the timeline shows
	selection: [number, number] | null; // the time range that limits all views
	call: number; func: number;
	sort: Column; down: boolean; theme: string;
	// The lanes: their order, and the threads that the user folded, unfolded, pinned, hid or moved.
	order: Sort; unfolded: number[] | null; pinned: number[]; hidden: number[]; moved: number[]; groups: string[] | null;
}

export const columns: Column[] = ["function", "thread", "start", "duration", "self", "depth", "parent"];
export const sorts: Sort[] = ["trace", "busy", "blocked", "name", "start", "selected"];

// Answer is the last result of a query. While a new one is computed, value returns the old one.
class Answer<T> {
	private asked: string | null = null;
	private waiting = false;
	private value: T | undefined;

	constructor(private readonly page: Page, private readonly key: () => string, private readonly ask: () => Promise<T>) {}

	get(): T | undefined {
		if (!this.waiting && this.key() !== this.asked) {
			this.asked = this.key();
			this.waiting = true;
			this.page.busy++;
			this.ask().then(value => { this.value = value; }).catch(error => this.page.fail(error)).finally(() => {
				this.waiting = false;
				this.page.busy--;
				this.page.change({}); // also asks again if the key has changed since
			});
		}
		return this.value;
	}

	// current reports whether the value is that of the present state.
	get current(): boolean { return !this.waiting && this.key() === this.asked; }
}

export class Page {
	readonly state: State = {
		tab: "calls", query: "", min: "", max: "", thread: "", from: 0, to: 1, selection: null, call: -1, func: -1,
		sort: "start", down: false, theme: "", order: "trace", unfolded: null, pinned: [], hidden: [], moved: [], groups: null,
	};
	readonly format: Format;
	// busy is the number of queries without an answer.
	busy = 0;
	private readonly draws: (() => void)[] = [];
	private readonly dark = matchMedia("(prefers-color-scheme: dark)");
	private themes: {light?: Theme; dark?: Theme} = {};
	private pending = 0;
	private saving = 0;
	private place: string | null = null; // what the current step of the history shows; null if unknown

	constructor(readonly meta: Meta, readonly calls: Calls, readonly engine: Engine, readonly rank: Uint32Array, readonly tabs: string[]) {
		this.format = new Format(meta.unit, calls.span, meta.epoch);
		this.dark.addEventListener("change", () => this.change({}));
	}

	fail(error: unknown): void {
		document.getElementById("summary")!.textContent = "The page cannot show the trace: " + String(error);
		throw error;
	}

	get isDark(): boolean { return this.state.theme ? this.state.theme === "dark" : this.dark.matches; }

	// theme returns the colors. It asks the browser once for each theme.
	get theme(): Theme {
		const name = this.isDark ? "dark" : "light";
		return this.themes[name] ??= new Theme(this.isDark, this.meta.functions.map(f => f.short));
	}

	// onDraw adds a function that draws the state.
	onDraw(draw: () => void): void { this.draws.push(draw); }

	drawAll(): void {
		document.documentElement.className = this.isDark ? "dark" : "light";
		for (const draw of this.draws) draw();
	}

	// change sets parts of the state. All views draw it in the next frame.
	change(what: Partial<State>): void {
		Object.assign(this.state, what);
		if (what.from !== undefined) this.show(what.from, what.to!);
		if (!this.pending) {
			this.pending = requestAnimationFrame(() => {
				this.pending = 0;
				this.drawAll();
			});
		}
		clearTimeout(this.saving);
		this.saving = window.setTimeout(() => this.writeFragment(), 200);
	}

	// settled resolves once the page shows the state and has stored it in its address.
	async settled(): Promise<void> {
		const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
		do await frame(); while (this.pending || this.busy || this.saving);
		await frame();
	}

	// show limits what the timeline shows: at least 10 ns, at most three times the trace.
	show(from: number, to: number): void {
		const end = this.calls.span, span = Math.min(Math.max(to - from, 10), Math.max(end * 3, 100));
		const at = Math.min(Math.max((from + to) / 2, 0), end);
		this.state.from = at - span / 2;
		this.state.to = at + span / 2;
	}

	readFragment(): void {
		const p = new URLSearchParams(location.hash.slice(1)), {state} = this, text = (name: string) => p.get(name) ?? "";
		const number = (name: string, otherwise: number) => p.has(name) && isFinite(Number(p.get(name))) ? Number(p.get(name)) : otherwise;
		const list = (name: string) => text(name).split(".").filter(v => v !== "").map(Number).filter(k => k >= 0 && k < this.meta.threads.length && Number.isInteger(k));
		for (const name of ["query", "min", "max", "thread"] as const) state[name] = text(name);
		state.tab = this.tabs.includes(text("tab")) ? text("tab") : "calls";
		state.theme = ["light", "dark"].includes(text("theme")) ? text("theme") : "";
		this.show(number("from", 0), number("to", this.calls.span));
		const a = number("a", NaN), b = number("b", NaN);
		state.selection = a < b ? [a, b] : null;
		const call = number("call", -1), func = number("func", -1);
		state.call = call >= 0 && call < this.calls.n ? call | 0 : -1;
		state.func = func >= 0 && func < this.meta.functions.length ? func | 0 : -1;
		state.sort = columns.find(c => c === text("sort")) ?? "start";
		state.down = text("down") === "1";
		state.order = sorts.find(s => s === text("order")) ?? "trace";
		state.unfolded = p.has("unfolded") ? list("unfolded") : null;
		for (const name of ["pinned", "hidden", "moved"] as const) state[name] = list(name);
		state.groups = p.has("group") ? p.getAll("group").filter(g => g) : null;
	}

	writeFragment(): void {
		clearTimeout(this.saving);
		this.saving = 0;
		const p = new URLSearchParams(), {state} = this;
		for (const name of ["query", "min", "max", "thread", "theme"] as const) if (state[name]) p.set(name, state[name]);
		if (state.tab !== "calls") p.set("tab", state.tab);
		if (Math.abs(state.from) > 0.5 || Math.abs(state.to - this.calls.span) > 0.5) {
			p.set("from", String(Math.round(state.from)));
			p.set("to", String(Math.round(state.to)));
		}
		if (state.selection) {
			p.set("a", String(Math.round(state.selection[0])));
			p.set("b", String(Math.round(state.selection[1])));
		}
		if (state.call >= 0) p.set("call", String(state.call));
		if (state.func >= 0) p.set("func", String(state.func));
		if (state.sort !== "start") p.set("sort", state.sort);
		if (state.down) p.set("down", "1");
		if (state.order !== "trace") p.set("order", state.order);
		if (state.unfolded) p.set("unfolded", state.unfolded.join("."));
		for (const name of ["pinned", "hidden", "moved"] as const) if (state[name].length) p.set(name, state[name].join("."));
		if (state.groups) for (const group of state.groups.length ? state.groups : [""]) p.append("group", group);
		// Navigation adds a step to the history. Typing does not.
		const now = ["tab", "from", "to", "a", "b", "call", "func"].map(name => p.get(name)).join(), text = String(p);
		if (text === location.hash.slice(1)) {
			this.place = now;
			return;
		}
		const steps = (history.state as {steps?: number} | null)?.steps ?? 0;
		if (now === this.place || this.place === null) history.replaceState({steps}, "", "#" + text);
		else history.pushState({steps: steps + 1}, "", "#" + text);
		this.place = now;
	}

	// goBack returns to the previous state, but does not leave the page.
	goBack(): void { if ((history.state as {steps?: number} | null)?.steps) history.back(); }

	// followAddress shows what the user typed into the address, or went back to.
	followAddress(): void {
		this.place = null;
		this.readFragment();
		this.change({});
	}

	// The names of functions and the ends of calls.
	fullName(f: number): string { return this.meta.functions[f]!.name; }
	shortName(f: number): string { return this.meta.functions[f]!.short; }
	nameOf(i: number): string { return this.shortName(this.calls.func[i]!); }
	value(i: number): string | undefined { return this.values.get(i); }
	private get values(): Map<number, string> { return this.valueMap ??= new Map(this.meta.values ?? []); }
	private valueMap: Map<number, string> | null = null;

	// showDuration formats the duration of a call, with ≥ if it did not end.
	showDuration(i: number): string { return (this.calls.isPartial(i) ? "≥ " : "") + this.format.time(this.calls.duration[i]!); }

	endingOf(i: number): string {
		const how: Record<number, string> = {
			[tailExit]: "left by a tail call", [continued]: "left by the tail call inside it", [inferred]: "no exit record: ended with its caller",
			[truncated]: "still open at the end of the trace", [abandoned]: "left by an exception or longjmp",
		}, end = this.calls.ends[i]!;
		return [end >= ends && "began before", how[end % ends]].filter(Boolean).join(", ");
	}

	// selfParts describes the self time of a call: on CPU, or why it was not.
	selfParts(i: number): string {
		const {calls} = this, t = calls.threadOf(i), sum = {blocked: 0, queued: 0, recorder: 0, unknown: 0};
		if (t.waitEnd === t.wait0) return "";
		let from = calls.start[i]!;
		const add = (to: number) => {
			const part = calls.waited(t, from, to);
			for (const kind of ["blocked", "queued", "recorder", "unknown"] as const) sum[kind] += part[kind];
		};
		for (const inner of calls.inside(i)) {
			add(calls.start[inner]!);
			from = calls.endOf(inner);
		}
		add(calls.endOf(i));
		const onCPU = Math.max(0, calls.selfOf(i) - sum.blocked - sum.queued - sum.recorder - sum.unknown);
		return [onCPU && `${this.format.time(onCPU)} on CPU`, this.showWaits(sum)].filter(Boolean).join(", ");
	}

	// waitParts describes the waits of a thread that touch a time.
	waitParts(t: Thread, from: number, to: number): string {
		const {waits} = this.calls, sum = {blocked: 0, queued: 0, recorder: 0, unknown: 0};
		let slack = 0;
		for (let k = bound(t.wait0, t.waitEnd, j => waits.end[j]! < from); k < t.waitEnd && waits.start[k]! <= to; k++) {
			const known = waits.blocked[k]! + waits.queued[k]! + waits.recorder[k]!, all = waits.end[k]! - waits.start[k]!;
			for (const kind of ["blocked", "queued", "recorder"] as const) sum[kind] += waits[kind][k]!;
			if (known) slack = Math.max(slack, all - known);
			else sum.unknown += all;
		}
		return [this.showWaits(sum), slack > 0 && `up to ${this.format.time(slack)} earlier`].filter(Boolean).join(", ");
	}

	private showWaits(sum: {blocked: number; queued: number; recorder: number; unknown: number}): string {
		const parts: [string, number][] = [["blocked", sum.blocked], ["in the run queue", sum.queued], ["waiting for the recorder", sum.recorder], ["unknown", sum.unknown]];
		return parts.filter(([, v]) => v > 0).map(([what, v]) => `${this.format.time(v)} ${what}`).join(", ");
	}

	// expression compiles what a user typed. Lowercase letters also match uppercase letters.
	static expression(text: string): RegExp {
		return new RegExp(text, /[A-Z]/.test(text.replace(/\\./g, "")) ? "" : "i");
	}

	// matching returns for each function whether its name matches the search, or null for all. Parameters and
	// template arguments are included if the expression has some.
	readonly matching = remembered(() => this.state.query, (): Uint8Array | null => {
		const {query} = this.state;
		if (!query) return null;
		try {
			const re = Page.expression(query), whole = /\\[([]|[< ]/.test(query);
			return Uint8Array.from(this.meta.functions, f => re.test(f.short) || whole && re.test(f.name) ? 1 : 0);
		} catch {
			return null;
		}
	});

	// threads returns the selected threads with calls.
	readonly threads = remembered(() => this.state.thread, (): Thread[] => {
		const all = this.calls.threads.filter(t => t.calls > 0);
		try {
			const re = Page.expression(this.state.thread);
			return all.filter(t => re.test(t.name));
		} catch {
			return all;
		}
	});

	private bounds(): [number, number] {
		const {min, max} = this.state, parse = (text: string) => this.format.parse(text);
		return [parse(min) || 0, max && !isNaN(parse(max)) ? parse(max) : Infinity];
	}

	scope(): Scope {
		return {threads: this.state.thread ? this.threads().map(t => t.index) : null, range: this.state.selection};
	}

	filter(): Filter {
		const [min, max] = this.bounds();
		return {...this.scope(), functions: this.matching(), min, max};
	}

	private scopeKey(): string { return JSON.stringify([this.state.thread, this.state.selection]); }
	private filterKey(): string { return JSON.stringify([this.state.query, this.state.min, this.state.max]) + this.scopeKey(); }

	// What the worker computes: the calls that pass the filter, in the order of the table, and sums.
	readonly found = new Answer<Found>(this, () => this.filterKey(), () => this.engine.ask("find", this.filter()));
	readonly listed = new Answer<Uint32Array>(this, () => this.filterKey() + this.state.sort + this.state.down,
		() => this.engine.ask("list", this.filter(), this.state.sort, this.state.down));
	readonly summed = new Answer<Summed & {paths: Tree}>(this, () => this.scopeKey(),
		async () => { const s = await this.engine.ask("sum", this.scope()); return {...s, paths: new Tree(s.tree)}; });
	readonly rates = new Answer(this, () => this.state.thread, () => this.engine.ask("rates", {...this.scope(), range: null}, 1024));
	readonly profiles = new Answer(this, () => "", () => this.engine.ask("profiles"));
	readonly details = new Answer(this, () => this.scopeKey() + this.state.func, async () => {
		const func = this.state.func;
		return {func, ...await this.engine.ask("details", func, this.scope())};
	});

	get isFiltered(): boolean {
		const s = this.state;
		return !!(s.query || s.min || s.max || s.thread || s.selection);
	}

	// isWhole reports whether all threads and the whole time are selected. Only then do the sums over all calls
	// apply.
	get isWhole(): boolean { return !!this.meta.octaves && !this.state.thread && !this.state.selection; }

	// functionSums returns the sums of a function for the selected threads and time, and the sum of all self times.
	// For the whole trace, they include calls that are not in the page. They are undefined until they are computed.
	functionSums(): {time: number; of: (f: number) => Sums & Partial<AllSums>} | undefined {
		if (this.isWhole) return {time: this.allSelf(), of: f => this.meta.functions[f]!.all!};
		const summed = this.summed.get();
		return summed && {time: summed.paths.time, of: f => sumsOf(summed, f)};
	}

	private readonly allSelf = remembered(() => "", () => this.meta.functions.reduce((sum, f) => sum + f.all!.self, 0));

	// where describes the threads and the time of a view.
	where(): string {
		const {state, meta} = this, chosen = this.threads(), n = chosen.length;
		const t = n === 1 && (state.thread || !meta.pruned && !meta.counted) ? chosen[0]!.name : state.thread ? `${showCount(n)} threads` : "all threads";
		return state.selection ? `${t}, ${this.format.moment(state.selection[0])} to ${this.format.moment(state.selection[1])}` : t;
	}

	// ofPart says that a view shows only a part of the calls, or is "" if it shows all.
	ofPart(): string {
		const parts = [], {left, pruned} = this.meta;
		if (left) parts.push(`the ${plural(left, "shorter call")} that ${left === 1 ? "is" : "are"} not in the page`);
		if (pruned) parts.push(`the ${plural(pruned, "call")} that the recorder dropped`);
		return parts.length ? `; without ${parts.join(" and ")}; their time counts as self time of their callers` : "";
	}

	// choose shows a call in all views.
	choose(i: number, fit: boolean): void {
		const what: Partial<State> = {call: i}, {calls, state} = this;
		if (i >= 0) {
			what.func = calls.func[i]!;
			const s = calls.start[i]!, e = calls.endOf(i), span = state.to - state.from;
			if (fit) {
				const margin = Math.max((e - s) * 0.1, 5);
				what.from = s - margin;
				what.to = e + margin;
			} else if (e < state.from || s > state.to) {
				what.from = s - span / 2;
				what.to = s + span / 2;
			}
		}
		this.change(what);
	}

	pickFunction(func: number): void { this.change({func, tab: "function"}); }

	// listCalls lists the calls of a function, longest first.
	listCalls(func: number, what: Partial<State> = {}): void {
		this.change({query: "^" + Page.escaped(this.fullName(func)) + "$", tab: "calls", sort: "duration", down: true, func, ...what});
	}

	// markCall selects the time range of the selected call.
	markCall(): void {
		const i = this.state.call, {start} = this.calls;
		if (i >= 0) this.change({selection: [start[i]!, Math.max(this.calls.endOf(i), start[i]! + 1)]});
	}

	static escaped(text: string): string { return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"); }
}

// remembered caches the last result of make, by key.
export function remembered<T>(key: () => string, make: () => T): () => T {
	let last: string | null = null, value: T;
	return () => {
		const now = key();
		if (now !== last) {
			last = now;
			value = make();
		}
		return value;
	};
}
