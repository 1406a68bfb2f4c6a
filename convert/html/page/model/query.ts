// What the page computes over many calls. It runs in a worker, so that the page never waits for it.
import {bound, rowsOf, type Calls, type Rows, type Thread} from "./calls";
import type {Meta, Octave, Sums} from "./meta";
import {profilesOf, type Profiles} from "./states";
import {gather, sorted, words, type Keys} from "./sort";
import {TreeBuilder, type TreeData} from "./tree";

// Scope selects threads and a time range. null selects all.
export interface Scope { threads: number[] | null; range: [number, number] | null }

// Filter selects calls in addition.
export interface Filter extends Scope { functions: Uint8Array | null; min: number; max: number }

export type Column = "function" | "thread" | "start" | "duration" | "self" | "depth" | "parent";

// Found are the calls that pass a filter: their number in the time range, and their rows over the whole time, or
// null if the filter selects no functions or durations.
export interface Found { count: number; rows: Rows | null }

export interface Summed { tree: TreeData; calls: Uint32Array; total: Float64Array; self: Float64Array; max: Float64Array }

// Neighbour is a caller or a callee. Function -1 is none: the outermost calls.
export interface Neighbour { func: number; calls: number; total: number }

// Details describe the calls of a function in a scope.
export interface Details {
	calls: number; open: number;
	quantiles: number[]; // shortest, p50, p90, p99, p99.9, longest
	bins: Octave[];
	callers: Neighbour[]; callees: Neighbour[];
	slowest: Uint32Array; // longest first
}

const slowestCalls = 10, mostNeighbours = 12;

export class Query {
	// rank has the positions of functions in the order of their names.
	readonly rank: Uint32Array;
	private selfTimes: Float64Array | null = null;
	private parents: Int32Array | null = null;
	private listed: {key: string; order: Uint32Array; reversed: boolean} | null = null;

	constructor(readonly calls: Calls, meta: Meta) {
		const order = meta.functions.map((_, f) => f), names = meta.functions, compare = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;
		order.sort((a, b) => compare(names[a]!.short, names[b]!.short) || compare(names[a]!.name, names[b]!.name) || a - b);
		this.rank = new Uint32Array(order.length);
		order.forEach((f, place) => { this.rank[f] = place; });
	}

	private threads(scope: Scope): Thread[] {
		return scope.threads ? scope.threads.map(k => this.calls.threads[k]!) : this.calls.threads;
	}

	// select returns the calls that pass a filter and overlap a range, in order.
	private select(f: Filter, range: [number, number] | null): Uint32Array {
		const [a, b] = range ?? [-Infinity, Infinity], threads = this.threads(f), {func, start, duration} = this.calls;
		const all = new Uint32Array(threads.reduce((sum, t) => sum + t.calls, 0)), {functions, min, max} = f;
		let n = 0;
		for (const t of threads) {
			for (let i = t.first; i < t.end; i++) {
				const d = duration[i]!, s = start[i]!;
				if (d >= min && d <= max && s <= b && s + d >= a && (!functions || functions[func[i]!])) all[n++] = i;
			}
		}
		return all.subarray(0, n);
	}

	find(f: Filter): Found {
		const {duration, start} = this.calls, narrow = f.functions || f.min > 0 || f.max < Infinity;
		const found = this.select(f, null), [a, b] = f.range ?? [-Infinity, Infinity];
		let count = 0;
		for (const i of found) if (start[i]! <= b && start[i]! + duration[i]! >= a) count++;
		return {count, rows: narrow ? rowsOf(this.calls.threads, this.calls.depth, found) : null};
	}

	private self(): Float64Array {
		if (this.selfTimes) return this.selfTimes;
		const {duration} = this.calls, self = Float64Array.from(duration);
		const parents = this.parent();
		for (let i = 0; i < self.length; i++) if (parents[i]! >= 0) self[parents[i]!]! -= duration[i]!;
		return this.selfTimes = self;
	}

	private parent(): Int32Array {
		if (this.parents) return this.parents;
		const {depth, threads} = this.calls, parents = new Int32Array(this.calls.n).fill(-1), open: number[] = [];
		for (const t of threads) {
			for (let i = t.first; i < t.end; i++) {
				if (depth[i]! > 0) parents[i] = open[depth[i]! - 1]!;
				open[depth[i]!] = i;
			}
		}
		return this.parents = parents;
	}

	// keys returns the sort keys of a column, and their number of words.
	keys(column: Column): [Keys, number] {
		const {func, start, duration, depth} = this.calls, rank = this.rank, wide = this.calls.length >= 4294967296 ? 2 : 1;
		switch (column) {
		case "function": return [order => gather(order, i => rank[func[i]!]!), 1];
		case "thread": {
			const thread = new Uint32Array(this.calls.n);
			for (const t of this.calls.threads) thread.fill(t.index, t.first, t.end);
			return [order => gather(order, i => thread[i]!), 1];
		}
		case "start": return [(order, word) => words(order, start, word), wide];
		case "duration": return [(order, word) => words(order, duration, word), wide];
		case "self": { const self = this.self(); return [(order, word) => words(order, self, word), wide]; }
		case "depth": return [order => gather(order, i => depth[i]!), 1];
		case "parent": {
			const parents = this.parent();
			return [order => gather(order, i => parents[i]! < 0 ? 0 : 1 + rank[func[parents[i]!]!]!), 1];
		}
		}
	}

	// list returns the calls that pass a filter by a column.
	list(f: Filter, column: Column, down: boolean): Uint32Array {
		const key = JSON.stringify([f.threads, f.range, f.functions && Array.from(f.functions), f.min, String(f.max), column]);
		if (this.listed?.key !== key) this.listed = {key, order: sorted(this.select(f, f.range), ...this.keys(column)), reversed: false};
		if (this.listed.reversed !== down) {
			this.listed.order.reverse();
			this.listed.reversed = down;
		}
		return this.listed.order.slice();
	}

	// sum adds up calls by path and by function. Calls outside of the range add no time, and are not counted.
	sum(scope: Scope): Summed {
		const [a, b] = scope.range ?? [-Infinity, Infinity], {func, start, duration, depth, ends} = this.calls, n = this.rank.length;
		const sums: Summed = {tree: null!, calls: new Uint32Array(n), total: new Float64Array(n), self: new Float64Array(n), max: new Float64Array(n)};
		const builder = new TreeBuilder(), {path, root} = builder, nesting = new Uint32Array(n);
		const leave = (d: number) => { while (path.length > d + 1) nesting[path.pop()!.func]!--; };
		for (const t of this.threads(scope)) {
			for (let i = t.first; i < t.end; i++) {
				const s = start[i]!, d = duration[i]!, e = s + d, f = func[i]!;
				leave(depth[i]!);
				const parent = path[path.length - 1]!, node = builder.enter(f);
				const inside = Math.max(0, Math.min(e, b) - Math.max(s, a));
				node.total += inside;
				node.self += inside;
				parent.self -= inside;
				sums.self[f]! += inside;
				if (parent === root) root.total += inside;
				else sums.self[parent.func]! -= inside;
				if (s <= b && e >= a) {
					node.calls++;
					sums.calls[f]!++;
					if (d > sums.max[f]! && ends[i] !== 4 && ends[i]! < 6) sums.max[f] = d;
					if (!nesting[f]) sums.total[f]! += inside;
				}
				nesting[f]!++;
			}
			leave(0);
		}
		root.self = 0;
		sums.tree = builder.finish(this.rank);
		return sums;
	}

	// rates counts the calls that begin in each of n equal parts of the trace.
	rates(scope: Scope, n: number): Float64Array {
		const counts = new Float64Array(n), width = this.calls.span / n, {start} = this.calls;
		for (const t of this.threads(scope)) for (let i = t.first; i < t.end; i++) counts[Math.min(start[i]! / width | 0, n - 1)]!++;
		return counts;
	}

	profiles(): Profiles { return profilesOf(this.calls); }

	details(func: number, scope: Scope): Details {
		const [a, b] = scope.range ?? [-Infinity, Infinity], {start, duration} = this.calls, found: number[] = [];
		for (const t of this.threads(scope)) {
			for (let i = t.first; i < t.end; i++) {
				if (this.calls.func[i] === func && start[i]! <= b && start[i]! + duration[i]! >= a) found.push(i);
			}
		}
		const [keys, wide] = this.keys("duration"), all = sorted(Uint32Array.from(found), keys, wide);
		const whole = all.filter(i => !this.calls.isPartial(i)), n = whole.length;
		const quantile = (q: number) => n ? duration[whole[Math.min(n - 1, Math.floor(q * n))]!]! : 0;
		return {
			calls: all.length, open: all.length - n, quantiles: [0, 0.5, 0.9, 0.99, 0.999, 1].map(quantile),
			bins: n ? histogram(whole, duration) : [], ...this.neighbours(all), slowest: all.slice(-slowestCalls).reverse(),
		};
	}

	// neighbours returns the callers and callees of some calls, by time.
	private neighbours(indices: Uint32Array): {callers: Neighbour[]; callees: Neighbour[]} {
		const callers = new Map<number, Neighbour>(), callees = new Map<number, Neighbour>(), parents = this.parent(), {func, duration} = this.calls;
		const add = (map: Map<number, Neighbour>, f: number, time: number) => {
			const sum = map.get(f) ?? {func: f, calls: 0, total: 0};
			sum.calls++;
			sum.total += time;
			map.set(f, sum);
		};
		for (const i of indices) {
			add(callers, parents[i]! < 0 ? -1 : func[parents[i]!]!, duration[i]!);
			for (const inner of this.calls.inside(i)) add(callees, func[inner]!, duration[inner]!);
		}
		const longest = (map: Map<number, Neighbour>) => Array.from(map.values()).sort((x, y) => y.total - x.total || x.func - y.func).slice(0, mostNeighbours);
		return {callers: longest(callers), callees: longest(callees)};
	}
}

// histogram counts durations in steps of a quarter of an octave, or coarser.
function histogram(ascending: Uint32Array, duration: Float64Array): Octave[] {
	const bin = (d: number) => Math.floor(Math.log2(Math.max(d, 1)) * 4), counts = new Map<number, number>();
	for (const i of ascending) counts.set(bin(duration[i]!), (counts.get(bin(duration[i]!)) ?? 0) + 1);
	const lowest = bin(duration[ascending[0]!]!), highest = bin(duration[ascending[ascending.length - 1]!]!);
	const step = Math.max(1, Math.ceil((highest - lowest + 1) / 24)), rows: Octave[] = [];
	for (let low = lowest; low <= highest; low += step) {
		let n = 0;
		for (let k = low; k < low + step; k++) n += counts.get(k) ?? 0;
		const from = Math.ceil(Math.pow(2, low / 4)), to = Math.ceil(Math.pow(2, (low + step) / 4)) - 1;
		if (to >= from || n) rows.push({from: low === 0 ? 0 : from, to: Math.max(to, from), n});
	}
	return rows;
}

export interface TreeRow { call: number; depth: number }

// callTree lists a call and the calls inside it, except short or deep ones.
export function callTree(calls: Calls, i: number): TreeRow[] {
	const rows: TreeRow[] = [], end = calls.lastOf(i), top = calls.depth[i]!;
	for (let j = i; j < end && rows.length < 200; j++) {
		const depth = calls.depth[j]! - top;
		if (depth <= 8 && calls.duration[j]! >= calls.duration[i]! / 200) rows.push({call: j, depth});
	}
	return rows;
}

export const sumsOf = (s: Summed, f: number): Sums => ({calls: s.calls[f]!, total: s.total[f]!, self: s.self[f]!, max: s.max[f]!});

export const firstAfter = (row: Uint32Array, calls: Calls, time: number) => bound(0, row.length, j => calls.endOf(row[j]!) < time);
