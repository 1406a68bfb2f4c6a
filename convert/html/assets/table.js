// The table of calls. Only visible rows are in the document.
// The sort keys of a column are integers from 0. Wide keys have a second word.
const columns = {
	function: {title: "function", class: "name", keys: order => gather(order, calls.func, ranks())},
	thread: {title: "thread", class: "thread", keys: order => gather(order, calls.thread)},
	start: {title: "start", class: "number start", keys: (order, word) => words(order, calls.start, word), wide: true},
	duration: {title: "duration", class: "number", keys: (order, word) => words(order, calls.duration, word), wide: true},
	self: {title: "self", class: "number", keys: (order, word) => words(order, calls.self, word), wide: true},
	depth: {title: "depth", class: "number narrow", keys: order => gather(order, calls.depth)},
	parent: {title: "called from", class: "name", keys: order => gatherParents(order, ranks())},
};

function gather(order, values, map) {
	const n = order.length, keys = new Uint32Array(n);
	if (map) for (let k = 0; k < n; k++) keys[k] = map[values[order[k]]];
	else for (let k = 0; k < n; k++) keys[k] = values[order[k]];
	return keys;
}

function gatherParents(order, rank) {
	const n = order.length, keys = new Uint32Array(n), {parent, func} = calls;
	for (let k = 0; k < n; k++) {
		const p = parent[order[k]];
		keys[k] = p < 0 ? 0 : 1 + rank[func[p]];
	}
	return keys;
}

function words(order, times, word) {
	const n = order.length, keys = new Uint32Array(n);
	if (word) for (let k = 0; k < n; k++) keys[k] = times[order[k]] / 4294967296;
	else for (let k = 0; k < n; k++) keys[k] = times[order[k]] >>> 0;
	return keys;
}

// ranks returns the positions of functions in the order of their names.
const ranks = remembered(() => "", () => {
	const order = meta.functions.map((_, f) => f), compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
	order.sort((a, b) => compare(shortName(a), shortName(b)) || compare(fullName(a), fullName(b)) || a - b);
	const rank = new Uint32Array(order.length);
	order.forEach((f, place) => { rank[f] = place; });
	return rank;
});

// sorted sorts calls by a column: a stable radix sort, a word of the keys at a time.
function sorted(indices, column) {
	let order = indices.slice();
	for (let word = 0; word < (column.wide && calls.end >= 4294967296 ? 2 : 1); word++) order = radix(order, column.keys(order, word));
	return order;
}

// radix sorts values by keys of 32 bits, 11 at a time, and skips bits that are equal in all.
function radix(values, keys) {
	const n = values.length, counts = [new Uint32Array(2048), new Uint32Array(2048), new Uint32Array(2048)];
	const [c0, c1, c2] = counts;
	for (let k = 0; k < n; k++) {
		const v = keys[k];
		c0[v & 2047]++;
		c1[v >>> 11 & 2047]++;
		c2[v >>> 22]++;
	}
	let spareValues = null, spareKeys = null;
	counts.forEach((count, pass) => {
		if (count.includes(n)) return;
		spareValues ||= new Uint32Array(n);
		spareKeys ||= new Uint32Array(n);
		let sum = 0;
		for (let d = 0; d < 2048; d++) {
			const c = count[d];
			count[d] = sum;
			sum += c;
		}
		scatter(values, keys, spareValues, spareKeys, count, 11 * pass);
		[values, spareValues, keys, spareKeys] = [spareValues, values, spareKeys, keys];
	});
	return values;
}

function scatter(values, keys, toValues, toKeys, next, shift) {
	for (let k = 0; k < keys.length; k++) {
		const v = keys[k], at = next[v >>> shift & 2047]++;
		toValues[at] = values[k];
		toKeys[at] = v;
	}
}

let listing = {};

// listed returns the calls of the table, in order.
function listed() {
	const indices = filtered();
	if (listing.of !== indices || listing.sort !== state.sort) {
		listing = {of: indices, sort: state.sort, down: false, rows: sorted(indices, columns[state.sort])};
	}
	if (listing.down !== state.down) {
		listing.rows.reverse();
		listing.down = state.down;
	}
	return listing.rows;
}

// virtualTable makes a table with only the visible rows in the document. show(row, k) fills
// a row with line k. press(k) handles the selection of a line, and key(e, k) other keys.
function virtualTable(parent, {titles, count, show, press, key, label, role = "grid"}) {
	const height = 22, most = 1.5e7; // browsers draw nothing below this
	const head = element("div", {class: "row head", role: "row", "aria-rowindex": 1}, ...titles);
	const space = element("div", {class: "space", role: "rowgroup"}), empty = element("p", {class: "empty"}, "none");
	const table = element("div", {class: "table", role, "aria-label": label, tabindex: "0"},
		element("div", {class: "top", role: "rowgroup"}, head), space);
	parent.append(table, empty);
	const pool = [];
	let chosen = -1;
	const scale = () => Math.max(1, count() * height / most);
	const room = () => Math.max(height, table.clientHeight - head.offsetHeight);
	function draw() {
		const n = count(), lines = Math.min(n, Math.ceil(room() / height) + 1);
		empty.hidden = n > 0;
		table.hidden = n === 0;
		table.setAttribute("aria-rowcount", n + 1);
		space.style.height = Math.min(n * height, most) + "px";
		const line = table.scrollTop * scale() / height;
		const first = Math.max(0, Math.min(Math.floor(line), n - lines + 1));
		while (pool.length < lines) {
			const row = element("div", {class: "row", role: "row", id: label.replace(/ /g, "-") + "-row-" + pool.length});
			row.addEventListener("click", () => {
				chosen = row.line;
				press(row.line);
			});
			pool.push(row);
			space.append(row);
		}
		table.removeAttribute("aria-activedescendant");
		pool.forEach((row, j) => {
			row.hidden = j >= lines || first + j >= n;
			if (row.hidden) return;
			row.line = first + j;
			row.style.top = (scale() === 1 ? row.line * height : table.scrollTop + (row.line - line) * height) + "px";
			row.setAttribute("aria-rowindex", row.line + 2);
			row.classList.toggle("odd", row.line % 2 === 1);
			if (row.line === chosen) table.setAttribute("aria-activedescendant", row.id);
			show(row, row.line);
		});
	}
	table.addEventListener("scroll", draw);
	table.addEventListener("keydown", e => {
		const n = count(), page = Math.max(1, Math.floor(room() / height) - 1);
		if (!n || e.target !== table || e.ctrlKey || e.metaKey || e.altKey) return;
		const to = {
			ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: chosen + page, PageUp: chosen - page, Home: 0, End: n - 1,
		}[e.key];
		if (to === undefined) {
			if (key && chosen >= 0 && chosen < n) key(e, chosen);
			return;
		}
		e.preventDefault();
		reach(Math.max(0, Math.min(n - 1, to)));
		press(chosen);
	});
	function reach(line) {
		chosen = line;
		const top = line * height / scale(), bottom = top + height / scale();
		if (top < table.scrollTop) table.scrollTop = top;
		else if (bottom > table.scrollTop + room()) table.scrollTop = Math.ceil(bottom - room());
	}
	new ResizeObserver(draw).observe(table);
	return {draw, reach};
}

const cell = (text, name) => element("span", {class: name || "", role: "gridcell", title: text}, text);

// functionCell shows the short name, and the full one if others have the same short name.
function functionCell(f, ...before) {
	const about = meta.functions[f], swatch = element("span", {class: "swatch"});
	swatch.style.background = functionColor(f);
	const full = about.name.slice(0, 2000);
	const text = about.shared ? [about.short.slice(0, 500), element("span", {class: "faint"}, " " + full)] : [about.short.slice(0, 2000)];
	return element("span", {class: "name", role: "gridcell", title: full}, ...before, swatch, element("bdi", {}, ...text));
}

// heading makes the title of a column. Clicking it sorts the table.
function heading(title, name, press) {
	const children = press ? [element("button", {type: "button", onclick: press}, title)] : [title];
	return element("div", {class: name, role: "columnheader"}, ...children);
}

function markSorted(heading, sort, down) {
	if (sort) heading.setAttribute("aria-sort", down ? "descending" : "ascending");
	else heading.removeAttribute("aria-sort");
}

function startCalls() {
	const titles = Object.entries(columns).map(([name, c]) => {
		const h = heading(c.title, c.class, () => {
			change(state.sort === name ? {down: !state.down} : {sort: name, down: ["duration", "self", "depth"].includes(name)});
		});
		h.dataset.name = name;
		return h;
	});
	const table = virtualTable($("calls"), {
		titles, label: "calls", count: () => listed().length,
		show: (row, k) => {
			const i = listed()[k], parent = calls.parent[i];
			row.setAttribute("aria-selected", i === state.call);
			row.replaceChildren(functionCell(calls.func[i]), cell(threadOf(i).name, "thread"), cell(showMoment(calls.start[i]), "number start"),
				cell(showDuration(i), "number"), cell(showTime(calls.self[i]), "number"), cell(String(calls.depth[i]), "number narrow"),
				parent < 0 ? cell("", "name") : functionCell(calls.func[parent]));
		},
		press: k => choose(listed()[k], false),
		key: (e, k) => {
			if (e.key === "Enter") choose(listed()[k], true);
		},
	});
	let shown = -1;
	views.push(() => {
		if (state.tab !== "calls") return;
		for (const h of titles) markSorted(h, h.dataset.name === state.sort, state.down);
		if (state.call !== shown) {
			shown = state.call;
			const line = shown < 0 ? -1 : listed().indexOf(shown);
			if (line >= 0) table.reach(line);
		}
		table.draw();
	});
}

// step selects the previous or the next call of the table.
function step(by) {
	const rows = listed();
	if (!rows.length) return;
	const at = rows.indexOf(state.call);
	const next = rows[at < 0 ? 0 : (at + by + rows.length) % rows.length];
	reveal(next);
	choose(next, false);
}

function startEvents() {
	const titles = [["number start", "time"], ["thread", "thread"], ["name", "event"]].map(([name, title]) => heading(title, name));
	const chosen = remembered(() => state.thread + state.selection, () => {
		const [a, b] = state.selection || always, of = new Set(threads().map(t => t.index));
		return meta.events.filter(e => (of.has(e.thread) || !state.thread) && e.at >= a && e.at <= b);
	});
	let last = -1;
	const table = virtualTable($("events"), {
		titles, label: "events", count: () => chosen().length,
		show: (row, k) => {
			const e = chosen()[k];
			row.setAttribute("aria-selected", k === last);
			row.replaceChildren(cell(showMoment(e.at), "number start"), cell(meta.threads[e.thread].name, "thread"), cell(e.text, "name"));
		},
		press: k => {
			last = k;
			const span = state.to - state.from, at = chosen()[k].at;
			change({from: at - span / 2, to: at + span / 2});
		},
	});
	views.push(() => { if (state.tab === "events") table.draw(); });
}
