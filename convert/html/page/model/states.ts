// What a thread did over time, as shares of intervals of equal length: of pixels, or of the parts of a profile.
import {bound, type Calls, type Thread} from "./calls";

// States are sums over intervals, in units of an interval: the time in which a call was open, the time in calls of
// all depths, the parts of the time that the thread was off CPU, in calls or outside of them, and their sum inside of
// calls.
export interface States { open: Float32Array; depth: Float32Array; blocked: Float32Array; queued: Float32Array; recorder: Float32Array; unknown: Float32Array; inside: Float32Array }

const kinds = ["open", "depth", "blocked", "queued", "recorder", "unknown", "inside"] as const;

export const newStates = (n: number): States => Object.fromEntries(kinds.map(k => [k, new Float32Array(n)])) as unknown as States;

// Profiles are the states of all threads over the whole trace, in parts of equal length.
export interface Profiles { parts: number; states: States[] }

// Cover adds up intervals. It keeps differences, so that a long interval costs as little as a short one.
class Cover {
	readonly change: Float64Array;
	constructor(readonly n: number) { this.change = new Float64Array(n + 2); }

	add(from: number, to: number, weight = 1): void {
		this.edge(from, weight);
		this.edge(to, -weight);
	}

	private edge(at: number, weight: number): void {
		const x = at < 0 ? 0 : at > this.n ? this.n : at, k = x | 0, part = x - k;
		this.change[k]! += weight * (1 - part);
		this.change[k + 1]! += weight * part;
	}

	finish(into: Float32Array): void {
		let sum = 0;
		for (let k = 0; k < this.n; k++) {
			sum += this.change[k]!;
			into[k] = sum < 1e-6 ? 0 : sum;
		}
	}
}

// statesOf returns the states of a thread in n intervals from a time on. It visits each call in that time.
export function statesOf(calls: Calls, t: Thread, from: number, interval: number, n: number): States {
	const states = newStates(n), open = new Cover(n), deep = new Cover(n), {start, duration, depth} = calls, to = from + n * interval;
	const add = (i: number) => {
		const a = (start[i]! - from) / interval, b = a + duration[i]! / interval;
		deep.add(a, b);
		if (depth[i] === 0) open.add(a, b);
	};
	const first = bound(t.first, t.end, i => start[i]! < from);
	// Calls that began before are the last ones of their depth.
	for (let d = 0; d < t.depth; d++) {
		const row = calls.row(t, d), i = row[bound(0, row.length, k => row[k]! < first) - 1];
		if (i !== undefined && start[i]! + duration[i]! > from) add(i);
	}
	for (let i = first; i < t.end && start[i]! < to; i++) add(i);
	open.finish(states.open);
	deep.finish(states.depth);
	if (t.waitEnd > t.wait0) addWaits(calls, t, from, interval, states);
	return states;
}

function addWaits(calls: Calls, t: Thread, from: number, interval: number, states: States): void {
	const {waits} = calls, outermost = calls.row(t, 0);
	const n = states.open.length, to = from + n * interval, at = (v: number) => (v - from) / interval;
	const blocked = new Cover(n), queued = new Cover(n), recorder = new Cover(n), unknown = new Cover(n), inside = new Cover(n);
	let call = bound(0, outermost.length, j => calls.endOf(outermost[j]!) < from);
	for (let k = bound(t.wait0, t.waitEnd, j => waits.end[j]! < from); k < t.waitEnd && waits.start[k]! < to; k++) {
		const end = waits.end[k]!, q = end - waits.queued[k]!, r = q - waits.recorder[k]!, b = r - waits.blocked[k]!;
		queued.add(at(q), at(end));
		recorder.add(at(r), at(q));
		blocked.add(at(b), at(r));
		const begin = b === end ? waits.start[k]! : b;
		if (b === end) unknown.add(at(begin), at(end));
		// A wait is between two records, so it is inside of a call or outside.
		while (call < outermost.length && calls.endOf(outermost[call]!) < end) call++;
		if (call < outermost.length && calls.start[outermost[call]!]! <= begin) inside.add(at(begin), at(end));
	}
	blocked.finish(states.blocked);
	queued.finish(states.queued);
	recorder.finish(states.recorder);
	unknown.finish(states.unknown);
	inside.finish(states.inside);
}

// profilesOf returns profiles so fine that a view of less than two parts a pixel has few calls.
export function profilesOf(calls: Calls): Profiles {
	const parts = Math.max(1024, Math.min(1 << 16, Math.floor((1 << 20) / Math.max(calls.threads.length, 1))));
	return {parts, states: calls.threads.map(t => statesOf(calls, t, 0, calls.span / parts, parts))};
}

// addStates adds states of a thread to into, in units of threads.
export function addStates(into: States, calls: Calls, profiles: Profiles | undefined, t: Thread, from: number, interval: number): void {
	const n = into.open.length, part = profiles ? calls.span / profiles.parts : Infinity;
	if (interval < part) {
		const states = statesOf(calls, t, from, interval, n);
		for (const kind of kinds) for (let k = 0; k < n; k++) into[kind][k]! += states[kind][k]!;
		return;
	}
	for (const kind of kinds) {
		const source = profiles!.states[t.index]![kind], sums = into[kind], last = source.length - 1;
		for (let k = 0; k < n; k++) {
			const a = (from + k * interval) / part, b = a + interval / part, i = Math.max(0, Math.floor(a)), j = Math.min(last, Math.floor(b));
			let sum = 0;
			for (let p = i; p <= j; p++) sum += source[p]! * (Math.min(b, p + 1) - Math.max(a, p));
			sums[k]! += sum * part / interval;
		}
	}
}
