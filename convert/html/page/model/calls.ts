// The calls of the trace, in columns. Calls of a thread are in the order of their entries, so the calls
// inside a call come right after it.

// How calls end. Calls that began before the trace have larger numbers.
export const tailExit = 1, continued = 2, inferred = 3, truncated = 4, abandoned = 5, ends = 6;

// bound returns the first index from low on for which less is false, or high.
export function bound(low: number, high: number, less: (k: number) => boolean): number {
	while (low < high) {
		const middle = (low + high) >> 1;
		if (less(middle)) low = middle + 1;
		else high = middle;
	}
	return low;
}

// Thread is a range of the columns. Its depths are rows of Rows from row0 on.
export interface Thread {
	index: number; name: string; pool: string; calls: number;
	first: number; end: number; depth: number; row0: number;
	wait0: number; waitEnd: number;
	start: number; // of the first call
}

// Rows lists calls by thread and depth, and within those in order.
export interface Rows { order: Uint32Array; from: Uint32Array }

// Waits are times in which threads were off CPU, in order. The thread was on CPU, or it is unknown, from start to
// the sum of the parts before end. A wait whose kind is unknown has no parts.
export interface Waits { start: Float64Array; end: Float64Array; blocked: Float64Array; queued: Float64Array; recorder: Float64Array }

export interface Columns {
	func: Uint32Array; start: Float64Array; duration: Float64Array; depth: Uint32Array; ends: Uint8Array;
}

export class Calls {
	readonly n: number;
	readonly func: Uint32Array;
	readonly start: Float64Array;
	readonly duration: Float64Array;
	readonly depth: Uint32Array;
	readonly ends: Uint8Array;

	constructor(columns: Columns, readonly threads: Thread[], readonly rows: Rows, readonly waits: Waits,
		readonly length: number /* end of the last call or event */) {
		({func: this.func, start: this.start, duration: this.duration, depth: this.depth, ends: this.ends} = columns);
		this.n = this.func.length;
	}

	// span is the length of the trace, and at least 1.
	get span(): number { return Math.max(this.length, 1); }

	endOf(i: number): number { return this.start[i]! + this.duration[i]!; }

	// isPartial reports whether the duration of a call is a lower bound.
	isPartial(i: number): boolean { return this.ends[i] === truncated || this.ends[i]! >= ends; }

	threadOf(i: number): Thread {
		return this.threads[bound(0, this.threads.length, k => this.threads[k]!.end <= i)]!;
	}

	// row returns the calls of a thread at a depth, in order.
	row(t: Thread, depth: number, rows: Rows = this.rows): Uint32Array {
		return depth < t.depth ? rows.order.subarray(rows.from[t.row0 + depth]!, rows.from[t.row0 + depth + 1]!) : rows.order.subarray(0, 0);
	}

	// parentOf returns the call around a call, or -1.
	parentOf(i: number): number {
		const depth = this.depth[i]!;
		if (depth === 0) return -1;
		const row = this.row(this.threadOf(i), depth - 1);
		return row[bound(0, row.length, k => row[k]! < i) - 1]!;
	}

	// inside returns the calls that a call made itself.
	inside(i: number): Uint32Array {
		const t = this.threadOf(i), beside = this.row(t, this.depth[i]!), inner = this.row(t, this.depth[i]! + 1);
		const after = bound(0, beside.length, k => beside[k]! <= i), next = after < beside.length ? beside[after]! : t.end;
		const from = bound(0, inner.length, k => inner[k]! < i);
		return inner.subarray(from, bound(from, inner.length, k => inner[k]! < next));
	}

	selfOf(i: number): number {
		let self = this.duration[i]!;
		for (const inner of this.inside(i)) self -= this.duration[inner]!;
		return self;
	}

	// lastOf returns the index after the last call inside call i.
	lastOf(i: number): number {
		const {end} = this.threadOf(i), depth = this.depth[i]!;
		let j = i + 1;
		while (j < end && this.depth[j]! > depth) j++;
		return j;
	}

	// neighbour returns the next, previous, enclosing or inner call of a call, or -1.
	neighbour(i: number, to: "next" | "previous" | "outer" | "inner"): number {
		const t = this.threadOf(i), depth = this.depth[i]!;
		if (to === "outer") return this.parentOf(i);
		if (to === "inner") return i + 1 < t.end && this.depth[i + 1]! > depth ? i + 1 : -1;
		const row = this.row(t, depth), k = bound(0, row.length, j => row[j]! < i) + (to === "next" ? 1 : -1);
		return k >= 0 && k < row.length ? row[k]! : -1;
	}

	// waited returns the parts of the waits that end during a time of a thread, which is at most the time itself.
	waited(t: Thread, from: number, to: number): {blocked: number; queued: number; recorder: number; unknown: number} {
		const w = this.waits, sum = {blocked: 0, queued: 0, recorder: 0, unknown: 0};
		for (let k = bound(t.wait0, t.waitEnd, j => w.end[j]! <= from); k < t.waitEnd && w.start[k]! < to; k++) {
			let end = w.end[k]!;
			for (const part of ["queued", "recorder", "blocked"] as const) {
				const start = end - w[part][k]!;
				sum[part] += Math.max(0, Math.min(end, to) - Math.max(start, from));
				end = start;
			}
			if (end === w.end[k]) sum.unknown += Math.max(0, Math.min(end, to) - Math.max(w.start[k]!, from));
		}
		return sum;
	}
}

// rowsOf divides calls, which are in order, by thread and depth.
export function rowsOf(threads: Thread[], depth: Uint32Array, list: Uint32Array | null): Rows {
	const n = list ? list.length : depth.length, last = threads[threads.length - 1];
	const from = new Uint32Array((last ? last.row0 + last.depth : 0) + 1), order = new Uint32Array(n);
	const each = (visit: (row: number, call: number) => void) => {
		let k = 0;
		for (const t of threads) {
			for (; k < n; k++) {
				const i = list ? list[k]! : k;
				if (i >= t.end) break;
				visit(t.row0 + depth[i]!, i);
			}
		}
	};
	each(row => { from[row + 1]!++; });
	for (let r = 1; r < from.length; r++) from[r]! += from[r - 1]!;
	const next = from.slice();
	each((row, i) => { order[next[row]!++] = i; });
	return {order, from};
}
