// What the user selected. It is in the fragment of the address, so a link shows others the
// same view, and the browser's history can return to it.
const state = {
	tab: "calls", query: "", min: "", max: "", thread: "",
	from: 0, to: 1, // what the timeline shows
	selection: null, // the time range that limits all views
	call: -1, func: -1,
	sort: "start", down: false, theme: "",
};
const views = []; // functions that draw the state

function readFragment() {
	const p = new URLSearchParams(location.hash.slice(1));
	const number = (name, otherwise) => p.has(name) && isFinite(p.get(name)) ? Number(p.get(name)) : otherwise;
	for (const name of ["query", "min", "max", "thread"]) state[name] = p.get(name) || "";
	state.tab = tabs.includes(p.get("tab")) ? p.get("tab") : "calls";
	state.theme = ["light", "dark"].includes(p.get("theme")) ? p.get("theme") : "";
	show(number("from", 0), number("to", calls.end));
	const a = number("a", NaN), b = number("b", NaN);
	state.selection = a < b ? [a, b] : null;
	const call = number("call", -1), func = number("func", -1);
	state.call = call >= 0 && call < calls.n ? call | 0 : -1;
	state.func = func >= 0 && func < meta.functions.length ? func | 0 : -1;
	state.sort = Object.hasOwn(columns, p.get("sort")) ? p.get("sort") : "start";
	state.down = p.get("down") === "1";
}

// show limits what the timeline shows: at least 10 ns, at most three times the trace.
function show(from, to) {
	const span = Math.min(Math.max(to - from, 10), Math.max(calls.end * 3, 100)), middle = (from + to) / 2;
	const at = Math.min(Math.max(middle, 0), calls.end);
	state.from = at - span / 2;
	state.to = at + span / 2;
}

// goBack returns to the previous state, but does not leave the page.
function goBack() {
	if (history.state?.steps) history.back();
}

let pending = 0, saving = 0; // timers
let place = null; // what the current step of the history shows; null if unknown

function writeFragment() {
	saving = 0;
	const p = new URLSearchParams();
	for (const name of ["query", "min", "max", "thread", "theme"]) if (state[name]) p.set(name, state[name]);
	if (state.tab !== "calls") p.set("tab", state.tab);
	if (Math.abs(state.from) > 0.5 || Math.abs(state.to - calls.end) > 0.5) {
		p.set("from", Math.round(state.from));
		p.set("to", Math.round(state.to));
	}
	if (state.selection) {
		p.set("a", Math.round(state.selection[0]));
		p.set("b", Math.round(state.selection[1]));
	}
	if (state.call >= 0) p.set("call", state.call);
	if (state.func >= 0) p.set("func", state.func);
	if (state.sort !== "start") p.set("sort", state.sort);
	if (state.down) p.set("down", "1");
	// Navigation adds a step to the history. Typing does not.
	const now = ["tab", "from", "to", "a", "b", "call", "func"].map(name => p.get(name)).join();
	const text = String(p);
	if (text === location.hash.slice(1)) {
		place = now;
		return;
	}
	const steps = history.state?.steps || 0;
	if (now === place || place === null) history.replaceState({steps}, "", "#" + text);
	else history.pushState({steps: steps + 1}, "", "#" + text);
	place = now;
}

// change sets parts of the state. All views draw it in the next frame.
function change(what) {
	Object.assign(state, what);
	if (what.from !== undefined) show(what.from, what.to);
	if (!pending) {
		pending = requestAnimationFrame(() => {
			pending = 0;
			for (const view of views) view();
		});
	}
	clearTimeout(saving);
	saving = setTimeout(writeFragment, 200);
}

// expression compiles what a user typed. Lowercase letters also match uppercase letters.
function expression(text) {
	return new RegExp(text, /[A-Z]/.test(text.replace(/\\./g, "")) ? "" : "i");
}

// remembered caches the last result of make, by key.
function remembered(key, make) {
	let last = null, value;
	return () => {
		const now = key();
		if (now !== last) {
			last = now;
			value = make();
		}
		return value;
	};
}

// matching returns for each function whether its name matches the search, or null for all.
// Parameters and template arguments are included if the expression has some.
const matching = remembered(() => state.query, () => {
	if (!state.query) return null;
	try {
		const re = expression(state.query), whole = /\\[([]|[< ]/.test(state.query);
		return Uint8Array.from(meta.functions, f => re.test(f.short) || whole && re.test(f.name) ? 1 : 0);
	} catch {
		return null;
	}
});

// threads returns the selected threads.
const threads = remembered(() => state.thread, () => {
	const all = meta.threads.filter(t => t.calls > 0);
	try {
		const re = expression(state.thread);
		return all.filter(t => re.test(t.name));
	} catch {
		return all;
	}
});

const bounds = () => [parseTime(state.min) || 0, state.max && !isNaN(parseTime(state.max)) ? parseTime(state.max) : Infinity];

// selected returns the calls of the selected threads that pass the filter and overlap a
// time range, in order of thread and start.
function selected([a, b]) {
	const functions = matching(), [min, max] = bounds();
	let n = 0;
	for (const t of threads()) n += t.calls;
	const all = new Uint32Array(n), {func, start, duration} = calls;
	n = 0;
	for (const t of threads()) {
		for (let i = t.first; i < t.end; i++) {
			const d = duration[i], s = start[i];
			if (d >= min && d <= max && s <= b && s + d >= a && (!functions || functions[func[i]])) all[n++] = i;
		}
	}
	return all.subarray(0, n);
}

const always = [-Infinity, Infinity];
const filterKey = () => JSON.stringify([state.query, state.min, state.max, state.thread]);

// found returns the calls that match the filter, and filtered those in the selected time.
const found = remembered(filterKey, () => selected(always));
const filtered = remembered(() => filterKey() + state.selection, () => state.selection ? selected(state.selection) : found());

// highlighted returns the rows of the calls of a thread that match the search, or null if
// there is none.
const highlighted = remembered(filterKey, () => {
	if (!state.query && !state.min && !state.max) return null;
	const all = found(), rows = [];
	for (let k = 0; k < all.length;) {
		const first = k, t = threadOf(all[k]);
		k = bound(k, all.length, j => all[j] < t.end);
		rows[t.index] = byDepth(t, k - first, j => all[first + j]);
	}
	return rows;
});

const isFiltered = () => !!(state.query || state.min || state.max || state.thread || state.selection);

// where describes the threads and the time of a view.
function where() {
	const n = threads().length;
	const t = n === 1 && (state.thread || !meta.pruned && !meta.counted) ? threads()[0].name : state.thread ? `${showCount(n)} threads` : "all threads";
	return state.selection ? `${t}, ${showMoment(state.selection[0])} to ${showMoment(state.selection[1])}` : t;
}

// isWhole reports whether all threads and the whole time are selected. Only then do the sums
// of functions apply.
const isWhole = () => !!meta.octaves && !state.thread && !state.selection;

// ofPart says that a view shows only a part of the calls, or is "" if it shows all.
const ofPart = () => {
	const parts = [];
	if (meta.left) parts.push(`the ${plural(meta.left, "shorter call")} that ${meta.left === 1 ? "is" : "are"} not in the page`);
	if (meta.pruned) parts.push(`the ${plural(meta.pruned, "call")} that the recorder dropped`);
	return parts.length ? `; without ${parts.join(" and ")}; their time counts as self time of their callers` : "";
};

// choose shows a call in all views.
function choose(i, fit) {
	const what = {call: i};
	if (i >= 0) {
		what.func = calls.func[i];
		const s = calls.start[i], e = endOf(i), span = state.to - state.from;
		if (fit) {
			const margin = Math.max((e - s) * 0.1, 5);
			what.from = s - margin;
			what.to = e + margin;
		} else if (e < state.from || s > state.to) {
			what.from = s - span / 2;
			what.to = s + span / 2;
		}
	}
	change(what);
}

function pickFunction(f) {
	change({func: f, tab: "function"});
}

const escaped = text => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

// callsOf lists the calls of a function, longest first.
function callsOf(f, what) {
	change({query: "^" + escaped(fullName(f)) + "$", tab: "calls", sort: "duration", down: true, func: f, ...what});
	fillInputs();
}
