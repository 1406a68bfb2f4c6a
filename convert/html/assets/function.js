// The view of one function: its durations, its slowest calls with their trees, and its source.
function startFunctions() {
	const sorts = {name: "function", calls: "calls", total: "total", self: "self", max: "longest", ...(meta.limited ? {allCalls: "all calls", allTotal: "all total"} : {})};
	const by = {name: "self", down: true};
	const titles = Object.entries(sorts).map(([name, title]) => heading(title, name === "name" ? "name" : "number", () => {
		Object.assign(by, by.name === name ? {down: !by.down} : {name, down: name !== "name"});
		change({});
	}));
	titles.splice(4, 0, heading("share", "number narrow"));
	const bar = element("p", {class: "bar"});
	$("functions").append(bar);
	const rows = remembered(() => JSON.stringify([state.thread, state.selection, state.query, by]), () => {
		const {functions} = functionSums(), wanted = matching(), rank = ranks();
		const all = functions.map((_, f) => f).filter(f => (functions[f].allCalls || functions[f].calls) > 0 && (!wanted || wanted[f]));
		all.sort((a, b) => (by.name === "name" ? 0 : (functions[a][by.name] || 0) - (functions[b][by.name] || 0)) || rank[a] - rank[b]);
		return by.down ? all.reverse() : all;
	});
	const table = virtualTable($("functions"), {
		titles, label: "functions", count: () => rows().length,
		show: (row, k) => {
			const f = rows()[k], {functions, time} = functionSums(), s = functions[f];
			row.setAttribute("aria-selected", f === state.func);
			const share = cell(showShare(s, time), "number narrow share");
			share.style.setProperty("--share", (time > 0 ? 100 * s.self / time : 0) + "%");
			row.replaceChildren(functionCell(f), cell(showCount(s.calls), "number"), cell(showTotal(s), "number"),
				cell(showSelf(s), "number"), share, cell(s.timed === 0 ? "-" : showTime(s.max), "number"),
				...(meta.limited ? [showAllCalls(s), showAllTotal(s)].map(text => cell(text, "number")) : []));
		},
		press: k => change({func: rows()[k]}),
		key: (e, k) => {
			if (e.key === "Enter") pickFunction(rows()[k]);
		},
	});
	$("functions").addEventListener("dblclick", e => {
		if (e.target.closest(".space")) pickFunction(state.func);
	});
	views.push(() => {
		if (state.tab !== "functions") return;
		const apart = [meta.left ? "calls that are not in the page" : "", meta.pruned ? "calls that the recorder dropped" : "",
			meta.counted ? "calls that were only counted" : ""].filter(text => text).join(" and ");
		bar.hidden = !apart;
		if (apart) bar.textContent = where() + (isWhole() ? `: all calls, including ${apart}` : ofPart());
		titles.filter((_, k) => k !== 4).forEach((h, k) => markSorted(h, Object.keys(sorts)[k] === by.name, by.down));
		table.draw();
	});
}

// showTotal and showSelf format times of a function, or - if they are unknown.
const showTotal = s => s.counted && s.counted === s.calls ? "-" : showTime(s.total);
const showSelf = s => s.timed === 0 && !s.open ? "-" : showTime(s.self);
const showShare = (s, time) => showSelf(s) === "-" ? "-" : percent(s.self, time);

// showAllCalls and showAllTotal format estimates that include calls which the recording left out. They
// are of the whole recording.
const showAllCalls = s => s.allCalls === undefined ? "-" : (s.estimated ? "~" : "") + showCount(s.allCalls);
const showAllTotal = s => s.allCalls === undefined || s.timeless ? "-" : (s.allCalls > s.calls - s.open ? "~" : "") + showTime(s.allTotal);

// chosenCalls returns the calls of a function in the selected threads and time.
function chosenCalls(f) {
	const [a, b] = state.selection || always, indices = [], {func, start, duration} = calls;
	for (const t of threads()) {
		for (let i = t.first; i < t.end; i++) {
			if (func[i] === f && start[i] <= b && start[i] + duration[i] >= a) indices.push(i);
		}
	}
	return Uint32Array.from(indices);
}

// histogramOf counts durations in steps of a quarter of an octave, or coarser.
function histogramOf(indices) {
	const bin = d => Math.floor(Math.log2(Math.max(d, 1)) * 4), counts = new Map();
	for (const i of indices) counts.set(bin(calls.duration[i]), (counts.get(bin(calls.duration[i])) || 0) + 1);
	const lowest = Math.min(...counts.keys()), highest = Math.max(...counts.keys());
	const step = Math.max(1, Math.ceil((highest - lowest + 1) / 24)), rows = [];
	for (let low = lowest; low <= highest; low += step) {
		let n = 0;
		for (let k = low; k < low + step; k++) n += counts.get(k) || 0;
		const from = Math.ceil(Math.pow(2, low / 4)), to = Math.ceil(Math.pow(2, (low + step) / 4)) - 1;
		if (to >= from || n) rows.push({from: low === 0 ? 0 : from, to: Math.max(to, from), n});
	}
	return rows;
}

// callTree lists a call and the calls inside it, except short or deep ones.
function callTree(i) {
	const rows = [], end = lastOf(i), top = calls.depth[i];
	for (let j = i; j < end && rows.length < 200; j++) {
		const d = calls.depth[j] - top;
		if (d <= 8 && calls.duration[j] >= calls.duration[i] / 200) rows.push({call: j, depth: d});
	}
	return rows;
}

const quantile = (ascending, q) => calls.duration[ascending[Math.min(ascending.length - 1, Math.floor(q * ascending.length))]];

function startFunction() {
	let shown = null;
	views.push(() => {
		if (state.tab !== "function") return;
		const key = JSON.stringify([state.func, state.thread, state.selection, state.call, isDark()]);
		if (shown === key) return;
		shown = key;
		showFunction($("function"), state.func);
	});
}

// plainTable makes a table of texts. A number in the first column is the index of a function.
function plainTable(titles, rows) {
	const name = v => typeof v === "number" ? element("button", {type: "button", class: "link", title: fullName(v), onclick: () => pickFunction(v)}, element("bdi", {}, shortName(v))) : v;
	const head = titles.map((title, k) => element("th", {scope: "col", class: k ? "" : "name"}, title));
	const body = rows.map(([first, ...rest]) => element("tr", {}, element("td", {class: "name"}, name(first)), ...rest.map(text => element("td", {}, text))));
	return element("div", {class: "wide", tabindex: "0"}, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
}

function showFunction(parent, f) {
	if (f < 0) {
		parent.replaceChildren(element("p", {class: "empty"}, "Select a call or a function in another view."));
		return;
	}
	const about = meta.functions[f], indices = chosenCalls(f), whole = sorted(indices.filter(i => !isPartial(calls.ends[i])), columns.duration);
	const {functions, time} = functionSums(), total = functions[f], all = isWhole() ? about.all : null, n = all ? all.timed : whole.length;
	const open = all ? all.open : indices.length - n, any = all ? all.calls : indices.length;
	const left = element("div", {}, element("h2", {}, about.short.slice(0, 500)));
	if (about.short !== about.name) left.append(element("p", {class: "full"}, about.name));
	if (about.file) left.append(element("p", {class: "faint"}, `${about.file}:${about.line}`));
	const listed = all && any !== indices.length ? `, ${showCount(indices.length)} of them in the page` : all ? "" : ofPart();
	left.append(element("p", {}, `${any ? plural(any, "call") : "no calls"} in ${where()}${listed}`),
		button("list the calls", "show them in the table, longest first", () => callsOf(f)));
	if (any) {
		const marks = all ? all.quantiles : [0, 0.5, 0.9, 0.99, 0.999, 1].map(q => n ? quantile(whole, q) : 0);
		left.append(plainTable(["total", "self", "share of all", "shortest", "median", "p90", "p99", "p99.9", "longest"], [[
			showTotal(total), showSelf(total), showShare(total, time), ...(n ? marks.map(showTime) : [])]]));
		if (all && meta.offCPU) left.append(plainTable(["self on CPU", "blocked", "in the run queue"],
			[[Math.max(all.self - all.blocked - all.queued, 0), all.blocked, all.queued].map(showTime)]));
		if (open) left.append(element("p", {class: "faint"}, `${showCount(open)} still open at the end: not in percentiles and histogram`));
		if (all && all.pruned) left.append(element("p", {class: "faint"}, `${showCount(all.pruned)} dropped by the recorder: included only in the number of calls and the total time`));
		if (all && all.counted) left.append(element("p", {class: "faint"}, `${showCount(all.counted)} only counted: included only in the number of calls`));
	}
	if (all && meta.limited) left.append(plainTable(["all calls", "±", "all total", "±"],
		[[showAllCalls(all), showCount(all.callsMargin), showAllTotal(all), all.timeless ? "-" : showTime(all.totalMargin)]]));
	// If the page has all calls, they are more precise than octaves.
	if (n) left.append(element("h3", {}, "durations"), histogram(f, all && n !== whole.length ? all.bins : histogramOf(whole)));
	const around = neighbours(indices), part = meta.left ? " (calls in the page)" : "";
	if (around.callers.length) left.append(element("h3", {}, "called from" + part), plainTable(["function", "calls", "total"], around.callers));
	if (around.callees.length) left.append(element("h3", {}, "calls" + part), plainTable(["function", "calls", "total"], around.callees));
	if (about.source) left.append(element("h3", {}, "source"), element("pre", {tabindex: "0", "aria-label": "source"}, about.source));
	const right = element("div", {});
	if (state.call >= 0 && calls.func[state.call] === f) right.append(element("h3", {}, "selected call"), slowCall(state.call, true));
	if (indices.length) right.append(element("h3", {}, "slowest calls"));
	const slowest = sorted(indices, columns.duration);
	for (let k = slowest.length - 1; k >= Math.max(0, slowest.length - 10); k--) right.append(slowCall(slowest[k], k === slowest.length - 1));
	parent.replaceChildren(element("div", {class: "columns"}, left, right));
}

// neighbours returns the callers and callees of some calls, by time.
function neighbours(indices) {
	const callers = new Map(), callees = new Map(), {parent, func, depth, duration} = calls;
	const add = (map, f, time) => {
		const sum = map.get(f) || [0, 0];
		map.set(f, [sum[0] + 1, sum[1] + time]);
	};
	for (const i of indices) {
		add(callers, parent[i] < 0 ? -1 : func[parent[i]], duration[i]);
		const {end} = threadOf(i);
		for (let j = i + 1; j < end && depth[j] > depth[i]; j++) {
			if (depth[j] === depth[i] + 1) add(callees, func[j], duration[j]);
		}
	}
	const rows = map => Array.from(map).sort((a, b) => b[1][1] - a[1][1]).slice(0, 12)
		.map(([f, [n, time]]) => [f < 0 ? "(outermost)" : f, showCount(n), showTime(time)]);
	return {callers: rows(callers), callees: rows(callees)};
}

// histogram draws durations as bars. Click a row to list its calls.
function histogram(f, rows) {
	const most = Math.max(...rows.map(r => r.n));
	const list = element("div", {class: "histogram", role: "group", "aria-label": "durations"});
	for (const {from, to, n} of rows) {
		const bar = element("span", {class: "fill"});
		bar.style.width = n ? Math.max(100 * n / most, 0.5) + "%" : "0";
		list.append(element("button", {type: "button", title: "list these calls", onclick: () => callsOf(f, {min: exactTime(from), max: exactTime(to)})},
			element("span", {class: "range"}, `${showTime(from)} to ${showTime(to)}`), element("span", {class: "count"}, showCount(n)),
			element("span", {class: "track", "aria-hidden": "true"}, bar)));
	}
	return list;
}

// slowCall shows a call with the calls inside it and their shares.
function slowCall(i, open) {
	const details = element("details", open ? {open: ""} : {},
		element("summary", {}, `${showDuration(i)} at ${showMoment(calls.start[i])} on `, element("bdi", {}, threadOf(i).name)));
	const fill = () => {
		if (details.childElementCount > 1) return;
		const body = element("tbody");
		for (const {call, depth} of callTree(i)) {
			const name = element("td", {class: "name", title: fullName(calls.func[call])}, element("bdi", {}, nameOf(call)));
			name.style.paddingLeft = 6 + depth * 14 + "px";
			const share = element("td", {class: "share"}, percent(calls.duration[call], calls.duration[i]));
			share.style.setProperty("--share", 100 * calls.duration[call] / calls.duration[i] + "%");
			body.append(element("tr", {}, name, element("td", {}, showDuration(call)), element("td", {}, showTime(calls.self[call])), share));
		}
		const titles = ["function", "total", "self", "share"].map((t, k) => element("th", {scope: "col", class: k ? "" : "name"}, t));
		details.append(button("show in the timeline", "", () => {
			reveal(i);
			choose(i, true);
		}), element("div", {class: "wide", tabindex: "0"}, element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body)));
	};
	details.addEventListener("toggle", fill);
	if (open) fill();
	return details;
}
