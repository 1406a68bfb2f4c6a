// What a page says about its trace besides the columns of numbers.

export interface Octave { from: number; to: number; n: number }

// Sums are those of a function over a selection. Times are in units of the page's clock.
export interface Sums { calls: number; total: number; self: number; max: number }

// AllSums are those of a function over all its calls, including calls that are not in the page. They are
// those of xray account.
export interface AllSums extends Sums {
	count: number; open: number; counted: number; pruned: number; timed: number;
	cpu: number; blocked: number; queued: number; recorder: number;
	quantiles: number[]; bins: Octave[];
	allCalls?: number; callsMargin?: number; allTotal?: number; totalMargin?: number; estimated?: boolean; timeless?: boolean;
}

export interface FunctionMeta {
	name: string; short: string; file?: string; line?: number; source?: string;
	shared: boolean; // others have the same short name
	all: AllSums | null;
}

export interface ThreadMeta { name: string; pool: string; calls: number; waits: number }

export interface EventMeta { at: number; thread: number; text: string }

export interface Meta {
	unit: string; epoch?: string; notes: string[];
	left: number; // calls that are not in the columns
	octaves: [number, number][] | null;
	offCPU: boolean; limited: boolean;
	functions: FunctionMeta[]; threads: ThreadMeta[]; events: EventMeta[];
	values?: [number, string][];
	pruned: number; counted: number; // calls that are only in the sums of functions
}

// complete fills what is not in the file: short names that equal the names, and which of them are shared.
export function complete(meta: Meta): void {
	const shared = new Map<string, boolean>();
	for (const f of meta.functions) {
		f.short ||= f.name;
		shared.set(f.short, shared.has(f.short));
	}
	for (const f of meta.functions) {
		f.shared = !!shared.get(f.short) && f.short !== f.name;
		f.all = null;
	}
	for (const t of meta.threads) t.pool ||= t.name;
	meta.pruned = meta.counted = 0;
}

// addSums reads the sums of functions over all their calls.
export function addSums(meta: Meta, next: () => number): void {
	const take = (n: number) => Array.from({length: n}, next);
	for (const f of meta.functions) {
		const [count, open, counted, pruned, total, self, cpu, blocked, queued, recorder] = take(10) as [number, number, number, number, number, number, number, number, number, number];
		const quantiles = take(6), bins: Octave[] = [];
		f.all = {count, open, counted, pruned, calls: count + open, timed: count - counted - pruned, total, self, cpu, blocked, queued, recorder, max: quantiles[5]!, quantiles, bins};
		meta.pruned += pruned;
		meta.counted += counted;
		const first = next(), n = next();
		for (let k = first; k < first + n; k++) bins.push({from: meta.octaves![k]![0], to: meta.octaves![k]![1], n: next()});
		if (!meta.limited) continue;
		[f.all.allCalls, f.all.callsMargin, f.all.allTotal, f.all.totalMargin] = take(4);
		f.all.estimated = next() > 0;
		f.all.timeless = next() > 0;
	}
}
