// The layout of the timeline: a summary row a thread or a group of threads, or a lane with a row for each depth.
import type {Thread} from "./calls";

// Sort is the order of the lanes: that of the trace, or by a weight, largest first, or by name or start.
export type Sort = "trace" | "busy" | "blocked" | "name" | "start" | "selected";

export interface Lane {
	threads: Thread[];
	group: string; // the name of a group; "" for a thread
	inGroup: boolean;
	name: string;
	unfolded: boolean; // of a group: whether its threads are shown
	pinned: boolean;
	y: number; height: number; // in pixels, from the top of the pinned lanes, or of the others
}

export interface Layout { pinned: Lane[]; lanes: Lane[]; pinnedHeight: number; height: number }

// manyThreads is the number of threads from which threads of a pool share a row at first.
export const manyThreads = 40;

export const rowHeight = 17, leastRow = 14, mostRow = 20;

export interface LaneOptions {
	threads: Thread[];
	order: Sort; moved: number[]; pinned: number[]; hidden: number[];
	groups: string[] | null; // groups that are open; null opens what fits
	unfolded: number[] | null; // null unfolds what fits
	weight: (t: Thread) => number; // for the order
	room: number; // height in which the lanes should fit
	spare: number; // height up to which lanes are unfolded by themselves
	above: number; // height of a lane above its calls
}

const laneHeight = (t: Thread, above: number) => Math.max(t.depth, 2) * rowHeight + above + 1;

// ordered returns threads in the order of their lanes.
function ordered({threads, order, moved, weight}: LaneOptions): Thread[] {
	const place = new Map(moved.map((index, k) => [index, k]));
	if (moved.length) return threads.toSorted((a, b) => (place.get(a.index) ?? Infinity) - (place.get(b.index) ?? Infinity) || a.index - b.index);
	switch (order) {
	case "trace": return threads;
	case "name": return threads.toSorted((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}) || a.index - b.index);
	case "start": return threads.toSorted((a, b) => a.start - b.start || a.index - b.index);
	default: {
		const weights = new Map(threads.map(t => [t, weight(t)]));
		return threads.toSorted((a, b) => weights.get(b)! - weights.get(a)! || a.index - b.index);
	}
	}
}

// unfoldedOf returns the threads that are unfolded. By themselves, those with the most calls are, while there is room.
function unfoldedOf(threads: Thread[], rows: number, row: number, o: LaneOptions): Set<number> {
	if (o.unfolded) return new Set(o.unfolded);
	if (threads.length === 1) return new Set([threads[0]!.index]);
	const chosen = new Set<number>();
	let left = o.spare - rows * row;
	for (const t of threads.toSorted((a, b) => b.calls - a.calls || a.index - b.index)) {
		left -= laneHeight(t, o.above) - row;
		if (left < 0) break;
		chosen.add(t.index);
	}
	return chosen;
}

// openGroups returns the groups that are open. By themselves, the smallest are, while there is room, and the only one.
function openGroups(pools: Map<string, Thread[]>, o: LaneOptions): Set<string> {
	if (o.groups) return new Set(o.groups);
	const open = new Set<string>(pools.size === 1 ? pools.keys() : []);
	let left = o.room - pools.size * leastRow;
	for (const [name, members] of Array.from(pools).sort((a, b) => a[1].length - b[1].length)) {
		left -= members.length * leastRow;
		if (left >= 0 && members.length > 1) open.add(name);
	}
	return open;
}

// layLanes places the lanes.
export function layLanes(o: LaneOptions): Layout {
	const hidden = new Set(o.hidden), pinned = new Set(o.pinned);
	const threads = ordered(o).filter(t => !hidden.has(t.index)), pools = new Map<string, Thread[]>();
	const grouped = o.threads.length > manyThreads;
	if (grouped) {
		for (const t of threads) {
			const members = pools.get(t.pool);
			if (members) members.push(t);
			else pools.set(t.pool, [t]);
		}
	}
	const open = openGroups(pools, o);
	const plan: Omit<Lane, "y" | "height" | "unfolded">[] = [], top: typeof plan = [];
	const single = (t: Thread, inGroup: boolean) => ({threads: [t], group: "", inGroup, name: t.name, pinned: pinned.has(t.index)});
	const seen = new Set<string>();
	for (const t of threads) {
		if (pinned.has(t.index)) top.push(single(t, false));
		const members = pools.get(t.pool) ?? [];
		if (members.length < 2) {
			if (!pinned.has(t.index)) plan.push(single(t, false));
		} else if (!seen.has(t.pool)) {
			seen.add(t.pool);
			plan.push({threads: members, group: t.pool, inGroup: false, name: t.pool, pinned: false});
			if (open.has(t.pool)) for (const member of members) if (!pinned.has(member.index)) plan.push(single(member, true));
		}
	}
	const rows = plan.length + top.length, row = Math.max(leastRow, Math.min(mostRow, Math.floor(o.room / Math.max(rows, 1))));
	const unfolded = unfoldedOf(grouped ? [] : threads, rows, row, o);
	const place = (list: typeof plan): [Lane[], number] => {
		let y = 0;
		const lanes = list.map(l => {
			const unfold = !l.group && unfolded.has(l.threads[0]!.index), height = unfold ? laneHeight(l.threads[0]!, o.above) : row;
			const lane = {...l, unfolded: l.group ? open.has(l.group) : unfold, y, height};
			y += height;
			return lane;
		});
		return [lanes, y];
	};
	const [pinnedLanes, pinnedHeight] = place(top), [lanes, height] = place(plan);
	return {pinned: pinnedLanes, lanes, pinnedHeight, height};
}
