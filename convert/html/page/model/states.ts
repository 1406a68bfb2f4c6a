// What threads did over time, as shares of intervals of equal length: of pixels, or of the parts of a profile.
import {bound, type Calls, type Thread} from "./calls";

const kinds = ["open", "depth", "blocked", "queued", "recorder", "unknown", "inside"] as const;
type Kind = (typeof kinds)[number];

// States are sums over intervals, in units of an interval: the time in which a call was open, the time in calls of
// all depths, the parts of the time that the thread was off CPU, in calls or outside of them, and their sum inside of
// calls. Of several threads, they are sums.
export type States = Record<Kind, Float32Array>;

// Profiles are the states of each thread over the whole trace, in a number of equal parts, and in half as many, and so
// on. Those of pools have poolParts parts. A kind without time has no array.
export interface Profiles { parts: number; levels: Partial<States>[][]; pools: Record<string, {threads: number; levels: Partial<States>[]}> }

export const poolParts = 1 << 13;

// Cover adds up spans of time. It keeps differences, so that a long span costs as little as a short one.
class Cover {
	private readonly change: Float64Array;
	private used = false;
	constructor(private readonly n: number) { this.change = new Float64Array(n + 2); }

	add(from: number, to: number): void {
		this.used = true;
		this.edge(from, 1);
		this.edge(to, -1);
	}

	private edge(at: number, weight: number): void {
		const x = at < 0 ? 0 : at > this.n ? this.n : at, k = x | 0, part = x - k;
		this.change[k]! += weight * (1 - part);
		this.change[k + 1]! += weight * part;
	}

	addTo(into: Float32Array): void {
		if (!this.used) return;
		for (let k = 0, sum = 0; k < this.n; k++) {
			sum += this.change[k]!;
			if (sum > 1e-6) into[k]! += sum;
		}
	}
}

// Sampler adds up the states of threads in n intervals from a time on.
export class Sampler {
	readonly states: States;
	private covers: Record<Kind, Cover> | null = null;

	constructor(private readonly calls: Calls, private readonly from: number, private readonly interval: number, private readonly n: number) {
		this.states = Object.fromEntries(kinds.map(k => [k, new Float32Array(n)])) as States;
	}

	finish(): States {
		if (this.covers) for (const kind of kinds) this.covers[kind].addTo(this.states[kind]);
		this.covers = null;
		return this.states;
	}

	// add adds a thread. It visits each of its calls in this time.
	add(t: Thread): void {
		this.covers ??= Object.fromEntries(kinds.map(k => [k, new Cover(this.n)])) as Record<Kind, Cover>;
		const {calls, from, interval, covers} = this, {start, duration, depth} = calls, to = from + this.n * interval;
		const one = (i: number) => {
			const a = (start[i]! - from) / interval, b = a + duration[i]! / interval;
			covers.depth.add(a, b);
			if (depth[i] === 0) covers.open.add(a, b);
		};
		const first = bound(t.first, t.end, i => start[i]! < from);
		// Calls that began before are the last ones of their depth.
		for (let d = 0; d < t.depth; d++) {
			const row = calls.row(t, d), i = row[bound(0, row.length, k => row[k]! < first) - 1];
			if (i !== undefined && start[i]! + duration[i]! > from) one(i);
		}
		for (let i = first; i < t.end && start[i]! < to; i++) one(i);
		if (t.waitEnd > t.wait0) this.addWaits(t, covers, to);
	}

	private addWaits(t: Thread, covers: Record<Kind, Cover>, to: number): void {
		const {calls, from, interval} = this, {waits} = calls, outermost = calls.row(t, 0), at = (v: number) => (v - from) / interval;
		let call = bound(0, outermost.length, j => calls.endOf(outermost[j]!) < from);
		for (let k = bound(t.wait0, t.waitEnd, j => waits.end[j]! < from); k < t.waitEnd && waits.start[k]! < to; k++) {
			const end = waits.end[k]!, q = end - waits.queued[k]!, r = q - waits.recorder[k]!, b = r - waits.blocked[k]!;
			covers.queued.add(at(q), at(end));
			covers.recorder.add(at(r), at(q));
			covers.blocked.add(at(b), at(r));
			const begin = b === end ? waits.start[k]! : b;
			if (b === end) covers.unknown.add(at(begin), at(end));
			// A wait is between two records, so it is inside of a call or outside.
			while (call < outermost.length && calls.endOf(outermost[call]!) < end) call++;
			if (call < outermost.length && calls.start[outermost[call]!]! <= begin) covers.inside.add(at(begin), at(end));
		}
	}

	// addProfile adds the levels of a profile. It reports whether they are as precise as the intervals.
	addProfile(levels: Partial<States>[], parts: number): boolean {
		let level = 0, part = this.calls.span / parts;
		if (this.interval < part) return false;
		// Where an interval begins within a part, the time of the part counts as spread over it.
		for (; level + 1 < levels.length && part * 8 <= this.interval; part *= 2) level++;
		for (const kind of kinds) {
			const source = levels[level]![kind], sums = this.states[kind];
			if (!source) continue;
			const scale = this.interval / part, first = this.from / part;
			for (let k = 0, n = this.n, last = source.length; k < n; k++) {
				const a = Math.max(0, first + k * scale), b = Math.min(last, first + (k + 1) * scale);
				let sum = 0;
				for (let p = Math.floor(a); p < b; p++) sum += source[p]! * (Math.min(b, p + 1) - Math.max(a, p));
				sums[k]! += sum / scale;
			}
		}
		return true;
	}
}

// levelsOf returns the sum of the profiles of threads.
function levelsOf(calls: Calls, threads: Thread[], parts: number): Partial<States>[] {
	const sampler = new Sampler(calls, 0, calls.span / parts, parts);
	for (const t of threads) sampler.add(t);
	let level: Partial<States> = sampler.finish();
	for (const kind of kinds) if (!level[kind]!.some(v => v > 0)) delete level[kind];
	const all = [level];
	for (let n = parts / 2; n >= 256; n /= 2) {
		const finer = level;
		level = {};
		for (const kind of kinds) if (finer[kind]) level[kind] = Float32Array.from({length: n}, (_, k) => (finer[kind]![2 * k]! + finer[kind]![2 * k + 1]!) / 2);
		all.push(level);
	}
	return all;
}

// profilesOf returns profiles so fine that views of single parts have few calls.
export function profilesOf(calls: Calls): Profiles {
	const parts = Math.pow(2, Math.max(9, Math.min(14, Math.floor(Math.log2((1 << 19) / Math.max(calls.threads.length, 1))))));
	const pools: Profiles["pools"] = {}, members = new Map<string, Thread[]>();
	for (const t of calls.threads) {
		const others = members.get(t.pool);
		if (others) others.push(t);
		else members.set(t.pool, [t]);
	}
	for (const [name, threads] of members) if (threads.length > 1) pools[name] = {threads: threads.length, levels: levelsOf(calls, threads, poolParts)};
	return {parts, levels: calls.threads.map(t => levelsOf(calls, [t], parts)), pools};
}
