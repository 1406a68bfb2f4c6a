// What the reader of the page has chosen. It is kept in the fragment of the address, so
// that an address shows others the same.
const state = {
	tab: "calls", query: "", min: "", max: "", thread: "",
	from: 0, to: 1, // what the timeline shows
	selection: null, // a stretch of time that bounds all views
	call: -1, func: -1,
	sort: "start", down: false, theme: "",
};
const views = []; // functions that show what has changed

function readFragment() {
	const p = new URLSearchParams(location.hash.slice(1));
	const number = (name, otherwise) => p.has(name) && isFinite(p.get(name)) ? Number(p.get(name)) : otherwise;
	for (const name of ["query", "min", "max"]) state[name] = p.get(name) || "";
	state.tab = $("tab-" + p.get("tab")) ? p.get("tab") : "calls";
	state.theme = ["light", "dark"].includes(p.get("theme")) ? p.get("theme") : "";
	state.thread = p.get("thread") in meta.threads ? p.get("thread") : "";
	state.from = number("from", 0);
	state.to = Math.max(number("to", calls.end), state.from + 1);
	const a = number("a", NaN), b = number("b", NaN);
	state.selection = a < b ? [a, b] : null;
	const call = number("call", -1), func = number("func", -1);
	state.call = call < calls.n ? call | 0 : -1;
	state.func = func < meta.functions.length ? func | 0 : -1;
	state.sort = p.get("sort") in columns ? p.get("sort") : "start";
	state.down = p.get("down") === "1";
}

function writeFragment() {
	const p = new URLSearchParams();
	for (const name of ["query", "min", "max", "thread", "theme"]) if (state[name]) p.set(name, state[name]);
	if (state.tab !== "calls") p.set("tab", state.tab);
	if (state.from !== 0 || state.to !== calls.end) {
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
	history.replaceState(null, "", "#" + p);
}

let pending = 0, saving = 0;

// change sets parts of the state; all views show it in the next frame.
function change(what) {
	Object.assign(state, what);
	if (!pending) {
		pending = requestAnimationFrame(() => {
			pending = 0;
			for (const view of views) view();
		});
	}
	clearTimeout(saving);
	saving = setTimeout(writeFragment, 200);
}

let matcher = {query: null};

// matching says of each function whether its name is searched for; null for all.
function matching() {
	if (matcher.query === state.query) return matcher.functions;
	matcher = {query: state.query, functions: null};
	let bad = false;
	if (state.query) {
		try {
			const re = new RegExp(state.query, "i");
			matcher.functions = Uint8Array.from(meta.functions, f => re.test(f.name) ? 1 : 0);
		} catch {
			bad = true;
		}
	}
	$("query").classList.toggle("bad", bad);
	$("query").setAttribute("aria-invalid", bad);
	return matcher.functions;
}

let found = {key: null};

// filtered are the calls that are chosen, in order of thread and start.
function filtered() {
	const key = JSON.stringify([state.query, state.min, state.max, state.thread, state.selection]);
	if (found.key === key) return found.indices;
	const functions = matching();
	const min = parseTime(state.min) || 0, max = parseTime(state.max) || Infinity;
	const [a, b] = state.selection || [-Infinity, Infinity];
	const t = state.thread === "" ? {first: 0, end: calls.n} : meta.threads[state.thread];
	const all = new Uint32Array(t.end - t.first);
	const {func, start, duration} = calls;
	let n = 0;
	for (let i = t.first; i < t.end; i++) {
		const d = duration[i], s = start[i];
		if (d >= min && d <= max && s <= b && s + d >= a && (!functions || functions[func[i]])) all[n++] = i;
	}
	found = {key, indices: all.subarray(0, n)};
	return found.indices;
}

const isFiltered = () => !!(state.query || state.min || state.max || state.thread !== "" || state.selection);

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
