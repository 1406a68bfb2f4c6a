// One function: how long its calls take, the slowest with their trees, and its source.
function startFunctions() {
	const sorts = {name: "function", calls: "calls", total: "total", self: "self", max: "longest"};
	let by = "self", rows = [], from = null, query = null;
	const titles = Object.entries(sorts).map(([name, title]) => element("button", {
		type: "button", role: "columnheader", class: name === "name" ? "name" : "number",
		onclick: () => { by = name; from = null; change({}); },
	}, title));
	const table = virtualTable($("functions"), titles, () => rows.length, (row, k) => {
		const f = rows[k], s = summed().functions[f];
		row.setAttribute("aria-selected", f === state.func);
		row.replaceChildren(cell(functionName(f), "name"), cell(showCount(s.calls), "number"), cell(showTime(s.total), "number"),
			cell(showTime(s.self), "number"), cell(showTime(s.max), "number"));
	}, k => pickFunction(rows[k]), "functions");
	views.push(() => {
		if (state.tab !== "functions") return;
		const {functions} = summed(), wanted = matching();
		if (from !== functions || query !== state.query) {
			from = functions;
			query = state.query;
			rows = functions.map((_, f) => f).filter(f => functions[f].calls > 0 && (!wanted || wanted[f]));
			rows.sort((a, b) => (by === "name" ? 0 : functions[b][by] - functions[a][by]) || ranks()[a] - ranks()[b]);
		}
		titles.forEach((b, k) => b.setAttribute("aria-sort", Object.keys(sorts)[k] === by ? "descending" : "none"));
		table.draw();
	});
}

// chosenCalls are the calls of a function in the chosen stretch and threads.
function chosenCalls(f) {
	const [a, b] = state.selection || [-Infinity, Infinity], indices = [];
	meta.threads.forEach((t, index) => {
		if (state.thread !== "" && index !== Number(state.thread)) return;
		for (let i = t.first; i < t.end; i++) {
			if (calls.func[i] === f && calls.start[i] <= b && endOf(i) >= a) indices.push(i);
		}
	});
	return indices;
}

// histogramOf counts durations in steps of a quarter of an octave, or coarser.
function histogramOf(indices) {
	const bin = d => Math.floor(Math.log2(Math.max(d, 1)) * 4), counts = new Map();
	for (const i of indices) counts.set(bin(calls.duration[i]), (counts.get(bin(calls.duration[i])) || 0) + 1);
	const bins = Array.from(counts.keys()).sort((a, b) => a - b);
	const step = Math.max(1, Math.ceil((bins[bins.length - 1] - bins[0] + 1) / 24)), rows = [];
	for (let low = bins[0]; low <= bins[bins.length - 1]; low += step) {
		let n = 0;
		for (let k = low; k < low + step; k++) n += counts.get(k) || 0;
		rows.push({from: Math.pow(2, low / 4), to: Math.pow(2, (low + step) / 4), n});
	}
	return rows;
}

// callTree is the list of a call and what is called inside.
function callTree(i, depth = 0) {
	const rows = [];
	const end = lastOf(i), top = calls.depth[i];
	for (let j = i; j < end && rows.length < 200; j++) {
		const d = calls.depth[j] - top;
		if (d > 8 || calls.duration[j] < calls.duration[i] / 200) continue;
		rows.push({call: j, depth: d + depth});
	}
	return rows;
}

const quantile = (ascending, q) => calls.duration[ascending[Math.min(ascending.length - 1, Math.floor(q * ascending.length))]];

function startFunction() {
	let shown = null;
	views.push(() => {
		if (state.tab !== "function") return;
		const key = JSON.stringify([state.func, state.thread, state.selection]);
		if (shown === key) return;
		shown = key;
		showFunction($("function"), state.func);
	});
}

function showFunction(parent, f) {
	if (f < 0) {
		parent.replaceChildren(element("p", {}, "Choose a function: in one of the other views, or by its calls."));
		return;
	}
	const about = meta.functions[f], indices = chosenCalls(f);
	const ascending = sorted(Uint32Array.from(indices), i => calls.duration[i]);
	const n = ascending.length, total = indices.reduce((sum, i) => sum + calls.duration[i], 0);
	const self = indices.reduce((sum, i) => sum + calls.self[i], 0);
	const left = element("div", {}, element("h2", {}, about.name));
	if (about.file) left.append(element("p", {}, `${about.file}:${about.line}`));
	left.append(element("p", {}, n ? `${showCount(n)} calls in ${where()}: ${showTime(total)}, itself ${showTime(self)}; median ${showTime(quantile(ascending, 0.5))}, ` +
		`p90 ${showTime(quantile(ascending, 0.9))}, p99 ${showTime(quantile(ascending, 0.99))}, longest ${showTime(quantile(ascending, 1))}` : `no calls in ${where()}`));
	left.append(element("button", {type: "button", onclick: () => callsOf(f)}, "list the calls"));
	if (n) left.append(histogram(f, ascending));
	if (about.source) left.append(element("h2", {}, "source"), element("pre", {}, about.source));
	const right = element("div", {}, element("h2", {}, "slowest calls"));
	for (let k = n - 1; k >= Math.max(0, n - 10); k--) right.append(slowCall(ascending[k], k === n - 1));
	parent.replaceChildren(element("div", {class: "columns"}, left, right));
}

function histogram(f, ascending) {
	const rows = histogramOf(ascending), most = Math.max(...rows.map(r => r.n));
	const grid = element("div", {class: "histogram", role: "list", "aria-label": "durations"});
	for (const r of rows) {
		const range = `${showTime(r.from)} to ${showTime(r.to)}`;
		grid.append(
			element("button", {type: "button", title: "list these calls", onclick: () => {
				$("min").value = Math.ceil(r.from) + meta.unit;
				$("max").value = Math.floor(r.to) + meta.unit;
				change({min: $("min").value, max: $("max").value});
				callsOf(f);
			}}, range),
			element("span", {}, showCount(r.n)),
			element("meter", {min: 0, max: most, value: r.n, "aria-label": range}));
	}
	return grid;
}

// slowCall shows a call with the calls inside, beside each its share.
function slowCall(i, open) {
	const details = element("details", open ? {open: ""} : {},
		element("summary", {}, `${showTime(calls.duration[i])} at ${showTime(calls.start[i])} on ${meta.threads[calls.thread[i]].title} `,
			element("a", {role: "button", tabindex: "0", onclick: e => {
				e.preventDefault();
				reveal(i);
				choose(i, true);
			}}, "show")));
	const body = element("tbody");
	for (const {call, depth} of callTree(i)) {
		const name = element("td", {class: "name"}, nameOf(call));
		name.style.paddingLeft = 8 + depth * 14 + "px";
		body.append(element("tr", {}, name, element("td", {}, showTime(calls.duration[call])), element("td", {}, showTime(calls.self[call])),
			element("td", {}, percent(calls.duration[call], calls.duration[i]))));
	}
	const titles = ["function", "total", "self", "share"].map((t, k) => element("th", {scope: "col", class: k ? "" : "name"}, t));
	details.append(element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body));
	return details;
}
