// The flame graph: all paths that are at least a pixel wide.
const flame = {top: null, of: null, boxes: [], cursor: null};

// layFlame places the paths below a node, and its callers above it.
function layFlame(top, width) {
	const boxes = [];
	for (let node = top.parent; node; node = node.parent) boxes.unshift({node, x: 0, w: width, y: node.depth, faint: true});
	const perPixel = Math.max(top.total, 1) / width, waiting = [{node: top, x: 0, w: width, y: top.depth}];
	while (waiting.length) {
		const box = waiting.pop();
		boxes.push(box);
		let x = box.x;
		for (const node of byTotal(box.node)) {
			const w = node.total / perPixel;
			if (w >= 0.5) waiting.push({node, x, w, y: node.depth});
			x += w;
		}
	}
	return boxes;
}

function drawFlame(canvas) {
	const {g, width, height} = sizeCanvas(canvas), functions = matching(), scroll = $("flame-pane").scrollTop;
	const {root} = summed(), colors = {};
	for (const name of ["text", "dim", "onColor", "faint"]) colors[name] = cssColor("--" + name);
	flame.boxes = layFlame(flame.top || root, width);
	const deepest = flame.boxes.reduce((y, box) => Math.max(y, box.y), 0);
	$("flame-space").style.height = (deepest + 1) * rowHeight + "px";
	for (const {node, x, w, y, faint} of flame.boxes) {
		const top = y * rowHeight - scroll;
		if (top < -rowHeight || top > height) continue;
		const dim = node.func < 0 || functions && !functions[node.func];
		g.globalAlpha = faint ? 0.6 : 1;
		g.fillStyle = dim ? colors.dim : functionColor(node.func);
		g.fillRect(x, top, Math.max(w - 1, 0.5), rowHeight - 1);
		if (w > 24) {
			g.fillStyle = dim ? colors.text : colors.onColor;
			g.fillText(fitted(g, node.func < 0 ? "all" : shortName(node.func), w - 7), x + 3, top + rowHeight / 2);
		}
		if (node === flame.cursor) {
			g.strokeStyle = colors.text;
			g.lineWidth = 2;
			g.strokeRect(x + 1, top + 1, Math.max(w - 3, 1), rowHeight - 3);
		}
	}
	g.globalAlpha = 1;
}

// matched returns the time of the outermost paths that match the search.
function matched(root, functions) {
	let sum = 0;
	const waiting = [root];
	while (waiting.length) {
		for (const node of byTotal(waiting.pop())) {
			if (functions[node.func]) sum += node.total;
			else waiting.push(node);
		}
	}
	return sum;
}

const aboutPath = node => [
	node.func < 0 ? "all" : fullName(node.func),
	`total ${showTime(node.total)}, ${percent(node.total, summed().root.total)}`,
	node.func >= 0 && `self ${showTime(node.self)}`, node.func >= 0 && plural(node.calls, "call"),
];

function startFlame() {
	const bar = element("p", {class: "bar", role: "status"}), canvas = element("canvas", {tabindex: "0", role: "application",
		"aria-label": "flame graph: use arrows to select and Enter to zoom. The call tree shows the same data as a table"});
	const pane = element("div", {id: "flame-pane"}, element("div", {id: "flame-space"}), canvas);
	$("flame").replaceChildren(bar, pane);
	const at = e => {
		const y = Math.floor((e.offsetY + pane.scrollTop) / rowHeight);
		return flame.boxes.find(b => b.y === y && e.offsetX >= b.x && e.offsetX < b.x + b.w)?.node;
	};
	const go = node => {
		flame.top = node === flame.top || node.func < 0 ? null : node;
		flame.cursor = node;
		change(node.func < 0 ? {} : {func: node.func});
	};
	canvas.addEventListener("pointermove", e => {
		const node = at(e);
		canvas.style.cursor = node ? "pointer" : "";
		if (node) showTip(e, ...aboutPath(node));
		else showTip(e);
	});
	canvas.addEventListener("pointerleave", e => showTip(e));
	canvas.addEventListener("click", e => {
		const node = at(e);
		if (node) go(node);
	});
	canvas.addEventListener("dblclick", e => {
		const node = at(e);
		if (node && node.func >= 0) pickFunction(node.func);
	});
	canvas.addEventListener("keydown", e => {
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		const node = flame.cursor || flame.top || summed().root;
		const beside = by => node.parent ? byTotal(node.parent)[byTotal(node.parent).indexOf(node) + by] : null;
		const keys = {
			ArrowUp: () => node.parent, ArrowDown: () => byTotal(node)[0], ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
		};
		if (keys[e.key]) {
			flame.cursor = keys[e.key]() || node;
			const y = flame.cursor.depth * rowHeight;
			if (y < pane.scrollTop || y + rowHeight > pane.scrollTop + pane.clientHeight) pane.scrollTop = y - pane.clientHeight / 2;
			change(flame.cursor.func < 0 ? {} : {func: flame.cursor.func});
		} else if (e.key === "Enter") go(node);
		else return;
		e.preventDefault();
	});
	pane.addEventListener("scroll", () => change({}));
	new ResizeObserver(() => change({})).observe(pane);
	views.push(() => {
		if (state.tab !== "flame") return;
		const {root} = summed(), functions = matching();
		if (flame.of !== root) Object.assign(flame, {of: root, top: null, cursor: null});
		const shown = flame.cursor && flame.cursor.func >= 0 ? aboutPath(flame.cursor).slice(1).join(", ") : "click to zoom, double-click to show the function";
		bar.textContent = [
			`${where()}: ${showTime(root.total)} in calls${ofPart()}`,
			functions && `${percent(matched(root, functions), root.total)} in matching functions`,
			flame.cursor && flame.cursor.func >= 0 ? shortName(flame.cursor.func) + " " + shown : shown,
		].filter(part => part).join("; ");
		drawFlame(canvas);
	});
}
