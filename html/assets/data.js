"use strict";
// The calls of the trace, in columns. Calls of a thread follow each other in the order
// of their entries, so that what is called inside a call comes right behind it.
const meta = JSON.parse(document.getElementById("meta").textContent);
const calls = {n: 0};

async function unpackBytes(id) {
	const element = document.getElementById(id);
	const text = atob(element.textContent);
	element.remove();
	const bytes = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

// unpack decodes numbers of 7 bits a byte, the lowest first.
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

async function loadCalls() {
	let n = 0;
	for (const t of meta.threads) n += t.calls;
	const [func, start, duration, depth] = await Promise.all([
		unpack("funcs", new Uint32Array(n)), unpack("starts", new Float64Array(n)),
		unpack("durations", new Float64Array(n)), unpack("depths", new Uint32Array(n)),
	]);
	const self = Float64Array.from(duration), parent = new Int32Array(n).fill(-1), thread = new Uint32Array(n);
	let first = 0, deepest = 0, end = 0;
	const open = [];
	meta.threads.forEach((t, index) => {
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
		deepest = Math.max(deepest, t.depth);
	});
	Object.assign(calls, {n, func, start, duration, self, depth, parent, thread, end: Math.max(end, 1), deepest});
}

// rowsOf gives the calls of a thread by depth, which the timeline searches.
function rowsOf(t) {
	if (t.rows) return t.rows;
	const counts = new Uint32Array(t.depth);
	for (let i = t.first; i < t.end; i++) counts[calls.depth[i]]++;
	t.rows = Array.from(counts, c => new Uint32Array(c));
	counts.fill(0);
	for (let i = t.first; i < t.end; i++) {
		const d = calls.depth[i];
		t.rows[d][counts[d]++] = i;
	}
	return t.rows;
}

const functionName = f => meta.functions[f].name;
const nameOf = i => functionName(calls.func[i]);
const endOf = i => calls.start[i] + calls.duration[i];

// lastOf is one more than the last call inside call i.
function lastOf(i) {
	const end = meta.threads[calls.thread[i]].end, depth = calls.depth[i];
	let j = i + 1;
	while (j < end && calls.depth[j] > depth) j++;
	return j;
}

// bound finds in indices the first call for which less does not hold.
function bound(indices, less) {
	let low = 0, high = indices.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (less(indices[middle])) low = middle + 1;
		else high = middle;
	}
	return low;
}

const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

function showTime(v) {
	if (meta.unit !== "ns") return Math.round(v).toLocaleString("en") + " ticks";
	for (const [unit, size] of units) {
		if (Math.abs(v) >= size) return (v / size).toPrecision(4) + " " + unit;
	}
	return Math.round(v) + " ns";
}

// parseTime reads what a user types, as 5us; NaN for what is no time.
function parseTime(text) {
	const m = /^\s*([0-9.]+)\s*(s|ms|us|µs|ns|ticks|)\s*$/.exec(text);
	if (!m) return NaN;
	const scale = {s: 1e9, ms: 1e6, us: 1e3, "µs": 1e3}[m[2]] || 1;
	return Number(m[1]) * scale;
}

const showCount = n => n.toLocaleString("en");

// element makes an element with properties and children; text is never markup.
function element(tag, properties, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(properties || {})) {
		if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
		else if (name === "class") e.className = value;
		else e.setAttribute(name, value);
	}
	e.append(...children);
	return e;
}
const $ = id => document.getElementById(id);
