// Calls added up by call path, and by function, within the chosen threads and time.
let sums = {key: null};

// summed are the paths of the chosen stretch: node 0 is the root of all.
function summed() {
	const key = JSON.stringify([state.thread, state.selection]);
	if (sums.key === key) return sums;
	const [a, b] = state.selection || [-Infinity, Infinity];
	const {func, start, duration, depth} = calls, n = meta.functions.length;
	const root = {func: -1, parent: null, calls: 0, total: 0, self: 0, children: new Map(), depth: 0};
	const functions = Array.from({length: n}, () => ({calls: 0, total: 0, self: 0, max: 0}));
	const path = [root], nesting = new Uint32Array(n), open = [];
	const leave = d => {
		while (open.length > d) {
			const c = open.pop();
			path.length--;
			nesting[c.func]--;
		}
	};
	meta.threads.forEach((t, index) => {
		if (state.thread !== "" && index !== Number(state.thread)) return;
		for (let i = t.first; i < t.end; i++) {
			const s = start[i], e = s + duration[i];
			leave(depth[i]);
			const f = func[i], parent = path[path.length - 1];
			let node = parent.last;
			if (!node || node.func !== f) {
				node = parent.children.get(f);
				if (!node) {
					node = {func: f, parent, calls: 0, total: 0, self: 0, children: new Map(), depth: parent.depth + 1};
					parent.children.set(f, node);
				}
				parent.last = node;
			}
			// What lies outside has no time, and its calls are not counted.
			const inside = Math.max(0, Math.min(e, b) - Math.max(s, a)), touches = s <= b && e >= a;
			const sum = functions[f];
			node.total += inside;
			node.self += inside;
			parent.self -= inside;
			sum.self += inside;
			if (open.length) functions[open[open.length - 1].func].self -= inside;
			if (touches) {
				node.calls++;
				sum.calls++;
				sum.max = Math.max(sum.max, duration[i]);
				if (!nesting[f]) sum.total += inside;
			}
			if (!open.length) root.total += inside;
			open.push(node);
			path.push(node);
			nesting[f]++;
		}
		leave(0);
	});
	root.self = 0;
	sums = {key, root, functions};
	return sums;
}

const byTotal = node => Array.from(node.children.values()).filter(c => c.calls > 0)
	.sort((x, y) => y.total - x.total || ranks()[x.func] - ranks()[y.func]);
const percent = (v, of) => of > 0 ? (100 * v / of).toFixed(1) + " %" : "";

function where() {
	const t = state.thread === "" ? "all threads" : meta.threads[state.thread].title;
	return state.selection ? `${t}, ${showTime(state.selection[0])} to ${showTime(state.selection[1])}` : t;
}

function pickFunction(f) {
	change({func: f, tab: "function"});
}

// callsOf lists the calls of a function.
function callsOf(f) {
	const escaped = functionName(f).replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
	$("query").value = "^" + escaped + "$";
	change({query: $("query").value, tab: "calls", sort: "duration", down: true, func: f});
}

// deepestShown bounds the rows of the flame graph, and what opens by itself in the tree.
const deepestShown = 1000;
const flame = {root: null, key: null, boxes: []};

function startFlame() {
	const bar = element("div", {class: "bar"}), canvas = element("canvas", {tabindex: "0", role: "img"});
	$("flame").replaceChildren(bar, canvas);
	const at = e => flame.boxes.find(b => e.offsetX >= b.x && e.offsetX < b.x + b.w && e.offsetY >= b.y && e.offsetY < b.y + rowHeight);
	canvas.addEventListener("mousemove", e => {
		const box = at(e);
		canvas.title = box ? describe(box.node) : "";
	});
	canvas.addEventListener("click", e => {
		const box = at(e);
		if (!box) return;
		flame.root = box.node === flame.root ? null : box.node;
		change({func: box.node.func});
	});
	canvas.addEventListener("dblclick", e => {
		const box = at(e);
		if (box && box.node.func >= 0) pickFunction(box.node.func);
	});
	const describe = node => `${node.func < 0 ? "all" : functionName(node.func)}\n${showTime(node.total)} (${percent(node.total, summed().root.total)}), itself ${showTime(node.self)}, ${showCount(node.calls)} calls`;
	new ResizeObserver(() => change({})).observe($("flame"));
	views.push(() => {
		if (state.tab !== "flame") return;
		const {root, key} = summed();
		if (flame.key !== key) Object.assign(flame, {key, root: null});
		const top = flame.root || root;
		bar.textContent = `${where()}: ${showTime(root.total)} in calls` + (flame.root ? `; shown: ${functionName(top.func)}, click it to see all` : "; click zooms, a double click shows the function");
		drawFlame(canvas, root, top);
	});
}

function drawFlame(canvas, root, top) {
	const width = canvas.clientWidth, scale = devicePixelRatio || 1;
	flame.boxes = [];
	const above = [];
	for (let n = top.parent; n; n = n.parent) above.unshift(n);
	above.forEach((node, k) => flame.boxes.push({node, x: 0, w: width, y: k * rowHeight, faint: true}));
	let deepest = above.length;
	const place = (node, x, y, perPixel) => {
		const w = node.total / perPixel;
		if (w < 0.5 || y > deepestShown) return;
		flame.boxes.push({node, x, w, y: y * rowHeight});
		deepest = Math.max(deepest, y + 1);
		for (const child of byTotal(node)) {
			place(child, x, y + 1, perPixel);
			x += child.total / perPixel;
		}
	};
	place(top, 0, above.length, Math.max(top.total, 1) / width);
	canvas.style.height = deepest * rowHeight + "px";
	canvas.width = width * scale;
	canvas.height = deepest * rowHeight * scale;
	canvas.setAttribute("aria-label", "flame graph of " + where());
	const g = canvas.getContext("2d"), dark = isDark(), functions = matching();
	g.scale(scale, scale);
	g.font = "11px system-ui, sans-serif";
	g.textBaseline = "middle";
	for (const {node, x, w, y, faint} of flame.boxes) {
		const hit = functions && node.func >= 0 && functions[node.func];
		g.globalAlpha = faint ? 0.5 : 1;
		g.fillStyle = hit ? (dark ? "#a07a10" : "#ffd54a") : node.func < 0 ? (dark ? "#333842" : "#dfe3e8") : `hsl(${hue(node.func)} ${dark ? "45% 38%" : "65% 72%"})`;
		g.fillRect(x, y, Math.max(w - 1, 0.5), rowHeight - 1);
		if (w > 30) {
			g.fillStyle = dark ? "#f1f3f7" : "#16181d";
			g.fillText((node.func < 0 ? "all" : functionName(node.func)).slice(0, Math.floor((w - 6) / 6.2)), x + 3, y + rowHeight / 2);
		}
	}
}

const openPaths = {key: null, set: null};

function startTree() {
	const bar = element("div", {class: "bar"});
	const holder = element("div");
	$("tree").replaceChildren(bar, holder);
	let lines = [];
	const titles = [["name", "function"], ["number", "total"], ["number", "share"], ["number", "self"], ["number", "calls"]]
		.map(([c, t]) => element("span", {class: c, role: "columnheader"}, t));
	const table = virtualTable(holder, titles, () => lines.length, (row, k) => {
		const node = lines[k], root = summed().root, children = byTotal(node).length;
		const open = openPaths.set.has(node);
		const twist = element("span", {class: "twist", "aria-hidden": "true"}, children ? (open ? "▾" : "▸") : "");
		const name = cell("", "name");
		name.append(twist, functionName(node.func));
		name.title = functionName(node.func);
		name.style.paddingLeft = node.depth * 14 + "px";
		row.setAttribute("aria-level", node.depth);
		row.setAttribute("aria-selected", node.func === state.func);
		if (children) row.setAttribute("aria-expanded", open);
		else row.removeAttribute("aria-expanded");
		row.replaceChildren(name, cell(showTime(node.total), "number"), cell(percent(node.total, root.total), "number"),
			cell(showTime(node.self), "number"), cell(showCount(node.calls), "number"));
	}, k => {
		const node = lines[k];
		if (openPaths.set.has(node)) openPaths.set.delete(node);
		else openPaths.set.add(node);
		change({func: node.func});
	}, "call tree");
	holder.style.height = "calc(100% - 30px)";
	views.push(() => {
		if (state.tab !== "tree") return;
		const {root, key} = summed();
		if (openPaths.key !== key) {
			Object.assign(openPaths, {key, set: new Set()});
			for (let node = byTotal(root)[0]; node && node.depth < 50; node = byTotal(node)[0]) openPaths.set.add(node);
		}
		bar.textContent = `${where()}: ${showTime(root.total)} in calls`;
		lines = [];
		const walk = node => {
			for (const child of byTotal(node)) {
				lines.push(child);
				if (openPaths.set.has(child)) walk(child);
			}
		};
		walk(root);
		table.draw();
	});
}
