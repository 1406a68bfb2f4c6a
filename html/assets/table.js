// The table of calls: rows exist only where they are seen.
const columns = {
	function: {title: "function", class: "name", show: nameOf, key: i => ranks()[calls.func[i]]},
	thread: {title: "thread", show: i => meta.threads[calls.thread[i]].title, key: i => calls.thread[i]},
	start: {title: "start", class: "number", show: i => showTime(calls.start[i]), key: i => calls.start[i]},
	duration: {title: "duration", class: "number", show: i => showTime(calls.duration[i]), key: i => calls.duration[i]},
	self: {title: "self", class: "number", show: i => showTime(calls.self[i]), key: i => calls.self[i]},
	depth: {title: "depth", class: "number narrow", show: i => String(calls.depth[i]), key: i => calls.depth[i]},
	parent: {title: "called from", class: "name", show: i => calls.parent[i] < 0 ? "" : nameOf(calls.parent[i]), key: i => calls.parent[i] < 0 ? -1 : ranks()[calls.func[calls.parent[i]]]},
};

let rankOf = null;

// ranks are the places of functions in the order of their names.
function ranks() {
	if (!rankOf) {
		const order = meta.functions.map((_, f) => f).sort((a, b) => functionName(a) < functionName(b) ? -1 : functionName(a) > functionName(b) ? 1 : a - b);
		rankOf = new Uint32Array(order.length);
		order.forEach((f, place) => { rankOf[f] = place; });
	}
	return rankOf;
}

// sorted sorts indices by whole numbers from -1 up: a stable radix sort by 16 bits.
function sorted(indices, key) {
	const n = indices.length;
	const low = new Uint32Array(n), high = new Uint32Array(n);
	let top = 0;
	for (let k = 0; k < n; k++) {
		const v = key(indices[k]) + 1;
		low[k] = v % 4294967296;
		high[k] = v / 4294967296;
		if (v > top) top = v;
	}
	let order = new Uint32Array(n);
	for (let k = 0; k < n; k++) order[k] = k;
	let spare = new Uint32Array(n);
	const counts = new Uint32Array(65536);
	for (let pass = 0; pass === 0 || top >= Math.pow(65536, pass); pass++) {
		const digits = pass < 2 ? low : high, shift = pass % 2 * 16;
		counts.fill(0);
		for (let k = 0; k < n; k++) counts[digits[k] >>> shift & 65535]++;
		for (let d = 0, sum = 0; d < 65536; d++) {
			const c = counts[d];
			counts[d] = sum;
			sum += c;
		}
		for (let k = 0; k < n; k++) {
			const o = order[k];
			spare[counts[digits[o] >>> shift & 65535]++] = o;
		}
		[order, spare] = [spare, order];
	}
	for (let k = 0; k < n; k++) order[k] = indices[order[k]];
	return order;
}

let listing = {key: null};

// listed are the calls of the table in its order.
function listed() {
	const indices = filtered();
	if (listing.of !== indices || listing.sort !== state.sort || listing.down !== state.down) {
		const rows = sorted(indices, columns[state.sort].key);
		if (state.down) rows.reverse();
		listing = {of: indices, sort: state.sort, down: state.down, rows};
	}
	return listing.rows;
}

// virtualTable makes a table of which only the rows in view exist. show(row, k) fills a
// row with the k-th line; press(k) is what choosing a line does.
function virtualTable(parent, titles, count, show, press, label) {
	const height = 20, most = 1.5e7; // browsers draw nothing further down
	const head = element("div", {class: "row head", role: "row"}, ...titles);
	const space = element("div", {class: "space"});
	const body = element("div", {class: "rows", tabindex: "0", role: "rowgroup"}, space);
	const table = element("div", {class: "table", role: "grid", "aria-label": label}, head, body);
	parent.replaceChildren(table);
	const pool = [];
	let chosen = -1;
	const scale = () => Math.max(1, count() * height / most);
	const firstLine = () => Math.floor(body.scrollTop * scale() / height);
	function draw() {
		const n = count(), lines = Math.min(n, Math.ceil(body.clientHeight / height) + 2);
		table.setAttribute("aria-rowcount", n);
		space.style.height = Math.min(n * height, most) + "px";
		const first = Math.max(0, Math.min(firstLine(), n - lines + 2));
		while (pool.length < lines) {
			const row = element("div", {class: "row", role: "row"});
			row.addEventListener("click", () => { chosen = row.line; press(row.line); });
			pool.push(row);
			space.append(row);
		}
		pool.forEach((row, j) => {
			row.hidden = j >= lines || first + j >= n;
			row.style.display = row.hidden ? "none" : "";
			if (row.hidden) return;
			row.line = first + j;
			row.style.top = (scale() === 1 ? row.line * height : body.scrollTop + j * height) + "px";
			row.setAttribute("aria-rowindex", row.line + 1);
			show(row, row.line);
		});
	}
	body.addEventListener("scroll", draw);
	body.addEventListener("keydown", e => {
		const by = {ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20}[e.key];
		if (!by || !count()) return;
		e.preventDefault();
		to(Math.max(0, Math.min(count() - 1, chosen + by)));
		press(chosen);
	});
	function to(line) {
		chosen = line;
		const top = line * height / scale();
		if (top < body.scrollTop || top > body.scrollTop + body.clientHeight - 2 * height) body.scrollTop = top - body.clientHeight / 2;
	}
	new ResizeObserver(draw).observe(body);
	return {draw, to};
}

const cell = (text, name) => element("span", {class: name || "", role: "gridcell", title: text}, text);

function startCalls() {
	const titles = Object.entries(columns).map(([name, c]) => {
		const b = element("button", {type: "button", class: c.class || "", role: "columnheader", onclick: () => {
			change(state.sort === name ? {down: !state.down} : {sort: name, down: ["duration", "self"].includes(name)});
		}});
		b.dataset.name = name;
		return b;
	});
	const table = virtualTable($("calls"), titles, () => listed().length, (row, k) => {
		const i = listed()[k];
		row.setAttribute("aria-selected", i === state.call);
		row.replaceChildren(...Object.values(columns).map(c => cell(c.show(i), c.class)));
	}, k => choose(listed()[k], false), "calls");
	views.push(() => {
		if (state.tab !== "calls") return;
		for (const b of titles) {
			const sort = b.dataset.name === state.sort;
			b.textContent = columns[b.dataset.name].title + (sort ? (state.down ? " ▼" : " ▲") : "");
			b.setAttribute("aria-sort", !sort ? "none" : state.down ? "descending" : "ascending");
		}
		table.draw();
	});
}

// step chooses the next call that is found, by time, from the chosen one on.
function step(by) {
	const rows = listed();
	if (!rows.length) return;
	const at = rows.indexOf(state.call);
	const next = rows[at < 0 ? 0 : (at + by + rows.length) % rows.length];
	reveal(next);
	choose(next, false);
}

function startEvents() {
	const titles = ["time", "thread", "event"].map((t, k) => element("span", {class: ["number", "", "name"][k], role: "columnheader"}, t));
	const table = virtualTable($("events"), titles, () => meta.events.length, (row, k) => {
		const e = meta.events[k];
		row.replaceChildren(cell(showTime(e.at), "number"), cell(meta.threads[e.thread].title), cell(e.text, "name"));
	}, k => {
		const span = state.to - state.from, at = meta.events[k].at;
		change({from: at - span / 2, to: at + span / 2});
	}, "events");
	views.push(() => { if (state.tab === "events") table.draw(); });
}
