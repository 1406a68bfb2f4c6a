"use strict";
// The calls of the trace, in columns. Calls of a thread are in the order of their entries,
// so the calls inside a call come right after it.
const meta = JSON.parse(document.getElementById("meta").textContent);
const calls = {n: 0};

// How calls end.
const tailExit = 1, continued = 2, inferred = 3, truncated = 4, abandoned = 5, ends = 6;
// Calls that began earlier have larger numbers.
const isPartial = end => end === truncated || end >= ends;

async function unpackBytes(id) {
	const element = document.getElementById(id);
	const text = atob(element.textContent);
	element.remove();
	const bytes = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

// unpack decodes numbers of 7 bits per byte, the lowest bits first.
async function unpack(id, into) {
	const bytes = await unpackBytes(id);
	for (let i = 0, at = 0; i < into.length; i++) {
		let b = bytes[at++], v = b & 127;
		for (let scale = 128; b > 127; scale *= 128) {
			b = bytes[at++];
			v += (b & 127) * scale;
		}
		into[i] = v;
	}
	return into;
}

// loadSums sets the sums of functions over all their calls, including those that are not in
// the columns.
async function loadSums() {
	const bytes = await unpackBytes("sums");
	let at = 0;
	const next = () => {
		let b = bytes[at++], v = b & 127;
		for (let scale = 128; b > 127; scale *= 128) {
			b = bytes[at++];
			v += (b & 127) * scale;
		}
		return v;
	};
	// Calls that are only in the sums of functions.
	meta.pruned = meta.counted = 0;
	for (const f of meta.functions) {
		const [count, open, counted, pruned, total, self, blocked, queued, ...quantiles] = Array.from({length: 14}, next);
		f.all = {count, open, counted, pruned, calls: count + open, timed: count - counted - pruned, total, self, blocked, queued, max: quantiles[5], quantiles, bins: []};
		meta.pruned += pruned;
		meta.counted += counted;
		const first = next(), n = next();
		for (let k = first; k < first + n; k++) f.all.bins.push({from: meta.octaves[k][0], to: meta.octaves[k][1], n: next()});
		if (meta.limited) [f.all.allCalls, f.all.callsMargin, f.all.allTotal, f.all.totalMargin, f.all.estimated, f.all.timeless] = Array.from({length: 6}, next);
	}
}

async function loadCalls() {
	let n = 0;
	for (const t of meta.threads) n += t.calls;
	const [func, start, duration, depth, ends] = await Promise.all([
		unpack("funcs", new Uint32Array(n)), unpack("starts", new Float64Array(n)), unpack("durations", new Float64Array(n)),
		unpack("depths", new Uint32Array(n)), unpack("ends", new Uint8Array(n)),
	]);
	const self = Float64Array.from(duration), parent = new Int32Array(n).fill(-1), thread = new Uint32Array(n);
	let first = 0, end = 0;
	const open = [];
	meta.threads.forEach((t, index) => {
		t.index = index;
		t.first = first;
		t.end = first += t.calls;
		t.depth = 0;
		let now = 0;
		for (let i = t.first; i < t.end; i++) {
			start[i] = now += start[i];
			thread[i] = index;
			const d = depth[i];
			if (d > 0) {
				parent[i] = open[d - 1];
				self[open[d - 1]] -= duration[i];
			}
			open[d] = i;
			if (d >= t.depth) t.depth = d + 1;
			if (start[i] + duration[i] > end) end = start[i] + duration[i];
		}
	});
	calls.values = new Map(meta.values || []);
	for (const e of meta.events) end = Math.max(end, e.at);
	Object.assign(calls, {n, func, start, duration, self, depth, ends, parent, thread, length: end, end: Math.max(end, 1)});
	if (meta.octaves) await loadSums();
	nameFunctions();
}

// nameFunctions marks functions that share a short name with others.
function nameFunctions() {
	const shared = new Map();
	for (const f of meta.functions) {
		f.short ||= f.name;
		shared.set(f.short, shared.has(f.short));
	}
	for (const f of meta.functions) f.shared = shared.get(f.short) && f.short !== f.name;
}

const fullName = f => meta.functions[f].name;
const shortName = f => meta.functions[f].short;
const nameOf = i => shortName(calls.func[i]);
const threadOf = i => meta.threads[calls.thread[i]];
const endOf = i => calls.start[i] + calls.duration[i];

// byDepth divides n calls of a thread into a row for each depth. list(k) is the kth call.
function byDepth(t, n, list) {
	const from = new Uint32Array(t.depth + 1), order = new Uint32Array(n), {depth} = calls;
	for (let k = 0; k < n; k++) from[depth[list(k)] + 1]++;
	for (let d = 0; d < t.depth; d++) from[d + 1] += from[d];
	const next = from.slice();
	for (let k = 0; k < n; k++) order[next[depth[list(k)]]++] = list(k);
	return d => d < t.depth ? order.subarray(from[d], from[d + 1]) : order.subarray(0, 0);
}

// rowOf returns the calls of a thread at a depth, in order.
function rowOf(t, depth) {
	t.row ||= byDepth(t, t.calls, k => t.first + k);
	return t.row(depth);
}

// lastOf returns the index after the last call inside call i.
function lastOf(i) {
	const {end} = threadOf(i), depth = calls.depth[i];
	let j = i + 1;
	while (j < end && calls.depth[j] > depth) j++;
	return j;
}

// bound returns the first index from low on for which less is false, or high.
function bound(low, high, less) {
	while (low < high) {
		const middle = (low + high) >> 1;
		if (less(middle)) low = middle + 1;
		else high = middle;
	}
	return low;
}
