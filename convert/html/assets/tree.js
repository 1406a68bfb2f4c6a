// Sums of calls by call path and by function, in the selected threads and time.

const newNode = (func, parent) => ({func, parent, calls: 0, total: 0, self: 0, children: new Map(), depth: parent ? parent.depth + 1 : 0});

// summed returns the root of the tree of call paths, and the sums of functions, for the
// selected threads and time.
const summed = remembered(() => JSON.stringify([state.thread, state.selection]), () => {
	const [a, b] = state.selection || always;
	const {func, start, duration, depth, ends} = calls, n = meta.functions.length;
	const root = newNode(-1, null);
	const functions = Array.from({length: n}, () => ({calls: 0, total: 0, self: 0, max: 0}));
	const path = [root], nesting = new Uint32Array(n), open = [];
	const leave = d => {
		while (open.length > d) {
			const c = open.pop();
			path.length--;
			nesting[c.func]--;
		}
	};
	for (const t of threads()) {
		for (let i = t.first; i < t.end; i++) {
			const s = start[i], e = s + duration[i];
			leave(depth[i]);
			const f = func[i], parent = path[path.length - 1];
			let node = parent.last;
			if (!node || node.func !== f) {
				node = parent.children.get(f);
				if (!node) {
					node = newNode(f, parent);
					parent.children.set(f, node);
				}
				parent.last = node;
			}
			// Calls outside the selected time add no time, and are not counted.
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
				if (duration[i] > sum.max && !isPartial(ends[i])) sum.max = duration[i];
				if (!nesting[f]) sum.total += inside;
			}
			if (!open.length) root.total += inside;
			open.push(node);
			path.push(node);
			nesting[f]++;
		}
		leave(0);
	}
	root.self = 0;
	return {root, functions};
});

// functionSums returns the sums of functions for the selected threads and time, and the sum
// of all self times. For the whole trace, they include calls that are not in the page.
const functionSums = remembered(() => JSON.stringify([state.thread, state.selection]), () => {
	if (!isWhole()) {
		const {root, functions} = summed();
		return {time: root.total, functions};
	}
	const functions = meta.functions.map(f => f.all);
	return {time: functions.reduce((sum, f) => sum + f.self, 0), functions};
});

// byTotal returns the children of a node, largest total first.
function byTotal(node) {
	node.sorted ||= Array.from(node.children.values()).filter(c => c.calls > 0)
		.sort((x, y) => y.total - x.total || ranks()[x.func] - ranks()[y.func]);
	return node.sorted;
}

function startTree() {
	const bar = element("p", {class: "bar"}), open = {root: null, set: new Set()};
	$("tree").replaceChildren(bar);
	let lines = [];
	const titles = [["name", "function"], ["number", "total"], ["number narrow", "share"], ["number", "self"], ["number", "calls"]]
		.map(([name, title]) => heading(title, name));
	const toggle = (node, to) => {
		if (to) open.set.add(node);
		else open.set.delete(node);
		list();
	};
	const list = () => {
		lines = [];
		const waiting = byTotal(summed().root).toReversed();
		while (waiting.length) {
			const node = waiting.pop();
			lines.push(node);
			if (open.set.has(node)) waiting.push(...byTotal(node).toReversed());
		}
	};
	const table = virtualTable($("tree"), {
		titles, label: "call tree", role: "treegrid", count: () => lines.length,
		show: (row, k) => {
			const node = lines[k], {root} = summed(), inner = byTotal(node).length > 0, opened = open.set.has(node);
			const twist = element("span", {class: "twist", "aria-hidden": "true"}, inner ? (opened ? "▾" : "▸") : "");
			twist.onclick = e => {
				e.stopPropagation();
				toggle(node, !opened);
				change({});
			};
			const name = functionCell(node.func, twist);
			// More indentation would leave no room for names.
			name.style.paddingLeft = Math.min(node.depth - 1, 30) * 14 + "px";
			const share = cell(percent(node.total, root.total), "number narrow share");
			share.style.setProperty("--share", 100 * node.total / root.total + "%");
			row.setAttribute("aria-level", node.depth);
			row.setAttribute("aria-selected", node.func === state.func);
			if (inner) row.setAttribute("aria-expanded", opened);
			else row.removeAttribute("aria-expanded");
			row.replaceChildren(name, cell(showTime(node.total), "number"), share, cell(showTime(node.self), "number"), cell(showCount(node.calls), "number"));
		},
		press: k => change({func: lines[k].func}),
		key: (e, k) => {
			const node = lines[k];
			if (e.key === "ArrowRight") toggle(node, true);
			else if (e.key === "ArrowLeft" && open.set.has(node)) toggle(node, false);
			else if (e.key === "ArrowLeft" && node.parent.func >= 0) table.reach(lines.indexOf(node.parent));
			else if (e.key === "Enter") pickFunction(node.func);
			else return;
			e.preventDefault();
			change({});
		},
	});
	views.push(() => {
		if (state.tab !== "tree") return;
		const {root} = summed();
		if (open.root !== root) {
			Object.assign(open, {root, set: new Set()});
			// Initially, the path with the largest total is open at each level.
			for (let node = byTotal(root)[0]; node && node.depth < 50; node = byTotal(node)[0]) open.set.add(node);
			list();
		}
		bar.textContent = `${where()}: ${showTime(root.total)} in calls${ofPart()}`;
		table.draw();
	});
}
