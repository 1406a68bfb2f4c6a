// The timeline: threads as lanes, a row for each depth. What is narrower than a pixel
// is skipped by binary search, so that drawing takes time by pixels, not by calls.
const rowHeight = 16, laneHead = 18, axisHeight = 20;
const timeline = {scroll: 0, lanes: [], height: 0};

function hue(f) {
	// Neighbouring numbers get colours far apart.
	return (f * 137.508) % 360;
}

function layOut() {
	let y = 0;
	timeline.lanes = meta.threads.map((t, index) => {
		const lane = {index, t, y, height: laneHead + t.depth * rowHeight + 4};
		y += lane.height;
		return lane;
	}).filter(l => l.t.calls > 0);
	timeline.height = y;
}

function drawTimeline() {
	const canvas = $("canvas"), scale = devicePixelRatio || 1;
	const width = canvas.clientWidth, height = canvas.clientHeight;
	if (canvas.width !== width * scale || canvas.height !== height * scale) {
		canvas.width = width * scale;
		canvas.height = height * scale;
	}
	const g = canvas.getContext("2d");
	g.setTransform(scale, 0, 0, scale, 0, 0);
	const style = getComputedStyle(document.documentElement);
	const colour = name => resolved(style, name);
	g.fillStyle = colour("--back");
	g.fillRect(0, 0, width, height);
	timeline.scroll = Math.max(0, Math.min(timeline.scroll, timeline.height - height + axisHeight));
	const dark = isDark(), functions = matching();
	const perPixel = (state.to - state.from) / width;
	g.font = "11px system-ui, sans-serif";
	g.textBaseline = "middle";
	g.save();
	g.beginPath();
	g.rect(0, axisHeight, width, height - axisHeight);
	g.clip();
	for (const lane of timeline.lanes) {
		const top = axisHeight + lane.y - timeline.scroll;
		if (top > height || top + lane.height < axisHeight) continue;
		g.fillStyle = colour("--faint");
		g.fillText(lane.t.title, 4, top + laneHead / 2);
		g.fillStyle = colour("--line");
		g.fillRect(0, top, width, 1);
		rowsOf(lane.t).forEach((row, depth) => {
			const y = top + laneHead + depth * rowHeight;
			if (y < height && y + rowHeight > axisHeight) drawRow(g, row, y, width, perPixel, dark, functions);
		});
	}
	drawEvents(g, width, perPixel, colour("--accent"));
	drawChosen(g, width, perPixel, colour);
	g.restore();
	drawAxis(g, width, perPixel, colour);
}

function drawRow(g, row, y, width, perPixel, dark, functions) {
	const {start, duration, func} = calls;
	let k = bound(row, i => start[i] + duration[i] < state.from);
	let edge = -1;
	while (k < row.length) {
		const i = row[k], x = (start[i] - state.from) / perPixel;
		if (x > width) break;
		const right = (start[i] + duration[i] - state.from) / perPixel;
		const left = Math.max(x, 0), w = Math.max(Math.min(right, width) - left, 1);
		const dim = functions && !functions[func[i]];
		if (left + w > edge) {
			g.fillStyle = dim ? (dark ? "#333842" : "#dfe3e8") : `hsl(${hue(func[i])} ${dark ? "45% 38%" : "65% 72%"})`;
			g.fillRect(left, y, w > 3 ? w - 1 : w, rowHeight - 1);
			edge = left + w;
			if (w > 30) {
				g.fillStyle = dark ? "#f1f3f7" : "#16181d";
				const room = Math.floor((w - 6) / 6.2), name = nameOf(i);
				g.fillText(name.length > room ? name.slice(0, room) : name, left + 3, y + rowHeight / 2);
			}
		}
		if (right - x >= 1) {
			k++;
		} else {
			// On to the first call that ends on the next pixel.
			const next = state.from + (Math.floor(x) + 1) * perPixel;
			let step = 1;
			while (k + step < row.length && start[row[k + step]] + duration[row[k + step]] < next) step *= 2;
			let low = k + (step >> 1), high = Math.min(k + step, row.length);
			low = Math.max(low, k + 1);
			while (low < high) {
				const middle = (low + high) >> 1;
				if (start[row[middle]] + duration[row[middle]] < next) low = middle + 1;
				else high = middle;
			}
			k = low;
		}
	}
}

function drawEvents(g, width, perPixel, colour) {
	g.fillStyle = colour;
	const last = new Map();
	for (const e of meta.events) {
		const x = Math.round((e.at - state.from) / perPixel);
		const lane = timeline.lanes.find(l => l.index === e.thread);
		if (x < 0 || x > width || !lane || last.get(lane) === x) continue;
		last.set(lane, x);
		const y = axisHeight + lane.y - timeline.scroll + laneHead - 5;
		g.beginPath();
		g.moveTo(x, y + 5);
		g.lineTo(x - 4, y - 3);
		g.lineTo(x + 4, y - 3);
		g.fill();
	}
}

function drawChosen(g, width, perPixel, colour) {
	if (state.selection) {
		const [a, b] = state.selection.map(v => (v - state.from) / perPixel);
		g.globalAlpha = 0.25;
		g.fillStyle = colour("--accent");
		g.fillRect(a, axisHeight, b - a, 1e4);
		g.globalAlpha = 1;
		g.fillStyle = colour("--text");
		g.fillText(showTime(state.selection[1] - state.selection[0]), Math.max(a, 0) + 4, axisHeight + 9);
	}
	if (state.call >= 0) {
		const lane = timeline.lanes.find(l => l.index === calls.thread[state.call]);
		const y = axisHeight + lane.y - timeline.scroll + laneHead + calls.depth[state.call] * rowHeight;
		const x = (calls.start[state.call] - state.from) / perPixel;
		const left = Math.max(x, -2), right = Math.min(x + Math.max(calls.duration[state.call] / perPixel, 3), width + 2);
		g.strokeStyle = colour("--text");
		g.lineWidth = 2;
		g.strokeRect(left, y - 1, right - left, rowHeight + 1);
	}
}

function drawAxis(g, width, perPixel, colour) {
	g.fillStyle = colour("--panel");
	g.fillRect(0, 0, width, axisHeight);
	g.fillStyle = colour("--faint");
	let step = Math.pow(10, Math.ceil(Math.log10(perPixel * 90)));
	if (step / 5 > perPixel * 90) step /= 5;
	else if (step / 2 > perPixel * 90) step /= 2;
	for (let v = Math.ceil(state.from / step) * step; v <= state.to; v += step) {
		const x = (v - state.from) / perPixel;
		g.fillRect(x, 0, 1, axisHeight);
		g.fillText(showTime(v), x + 3, axisHeight / 2);
	}
}

// callAt is the call at a place of the canvas, or -1.
function callAt(x, y) {
	const perPixel = (state.to - state.from) / $("canvas").clientWidth;
	const lane = laneAt(y);
	if (!lane || y < axisHeight) return -1;
	const depth = Math.floor((y - axisHeight + timeline.scroll - lane.y - laneHead) / rowHeight);
	const row = rowsOf(lane.t)[depth];
	if (!row) return -1;
	const {start, duration} = calls, from = state.from + (x - 1) * perPixel, to = state.from + (x + 1) * perPixel;
	const k = bound(row, i => start[i] + duration[i] < from);
	return k < row.length && start[row[k]] <= to ? row[k] : -1;
}

const laneAt = y => timeline.lanes.find(l => {
	const at = y - axisHeight + timeline.scroll - l.y;
	return at >= 0 && at < l.height;
});

function eventAt(x, y) {
	const lane = laneAt(y), perPixel = (state.to - state.from) / $("canvas").clientWidth;
	if (!lane || y - axisHeight + timeline.scroll - lane.y > laneHead) return null;
	return meta.events.find(e => e.thread === lane.index && Math.abs((e.at - state.from) / perPixel - x) <= 4);
}

function zoom(factor, x = 0.5) {
	const span = state.to - state.from, at = state.from + span * x;
	const next = Math.min(Math.max(span * factor, 10), calls.end * 2);
	change({from: at - next * x, to: at + next * (1 - x)});
}

function move(share) {
	const by = (state.to - state.from) * share;
	change({from: state.from + by, to: state.to + by});
}

function fit() {
	if (state.call >= 0) choose(state.call, true);
	else if (state.selection) change({from: state.selection[0], to: state.selection[1]});
	else change({from: 0, to: calls.end});
}

// neighbour is the call beside, around or inside another one.
function neighbour(i, key) {
	const t = meta.threads[calls.thread[i]], depth = calls.depth[i];
	switch (key) {
	case "ArrowUp":
		return calls.parent[i];
	case "ArrowDown":
		return i + 1 < t.end && calls.depth[i + 1] > depth ? i + 1 : -1;
	}
	const row = rowsOf(t)[depth];
	const k = bound(row, j => j < i) + (key === "ArrowRight" ? 1 : -1);
	return k >= 0 && k < row.length ? row[k] : -1;
}

function showTip(x, y) {
	const tip = $("tip"), event = eventAt(x, y), i = event ? -1 : callAt(x, y);
	tip.hidden = !event && i < 0;
	if (tip.hidden) return;
	if (event) {
		tip.textContent = `${event.text}\nat ${showTime(event.at)}`;
	} else {
		tip.textContent = `${nameOf(i)}\n${showTime(calls.duration[i])}, itself ${showTime(calls.self[i])}, at ${showTime(calls.start[i])}`;
	}
	tip.style.left = Math.min(x + 12, $("timeline").clientWidth - tip.offsetWidth - 4) + "px";
	tip.style.top = Math.min(y + 14, $("timeline").clientHeight - tip.offsetHeight - 2) + "px";
}

function startTimeline() {
	layOut();
	const canvas = $("canvas");
	let drag = null;
	const timeAt = x => state.from + (state.to - state.from) * x / canvas.clientWidth;
	canvas.addEventListener("pointerdown", e => {
		drag = {x: e.offsetX, time: timeAt(e.offsetX), moved: false};
		canvas.setPointerCapture(e.pointerId);
	});
	canvas.addEventListener("pointermove", e => {
		if (drag && (drag.moved || Math.abs(e.offsetX - drag.x) > 3)) {
			drag.moved = true;
			const now = timeAt(e.offsetX);
			change({selection: [Math.min(drag.time, now), Math.max(drag.time, now)]});
		}
		showTip(e.offsetX, e.offsetY);
	});
	canvas.addEventListener("pointerup", e => {
		if (drag && !drag.moved) choose(callAt(e.offsetX, e.offsetY), false);
		drag = null;
	});
	canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
	canvas.addEventListener("dblclick", e => {
		const i = callAt(e.offsetX, e.offsetY);
		if (i >= 0) choose(i, true);
	});
	canvas.addEventListener("wheel", e => {
		e.preventDefault();
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) move((e.deltaX || e.deltaY) / 1000);
		else if (e.ctrlKey || e.metaKey) zoom(Math.pow(1.002, e.deltaY), e.offsetX / canvas.clientWidth);
		else {
			timeline.scroll += e.deltaY;
			change({});
		}
	}, {passive: false});
	canvas.addEventListener("keydown", e => {
		if (!e.key.startsWith("Arrow")) return;
		e.preventDefault();
		if (state.call < 0) {
			if (e.key === "ArrowDown" || e.key === "ArrowUp") timeline.scroll += e.key === "ArrowDown" ? 40 : -40;
			else move(e.key === "ArrowRight" ? 0.2 : -0.2);
			change({});
			return;
		}
		const next = neighbour(state.call, e.key);
		if (next >= 0) {
			reveal(next);
			choose(next, false);
		}
	});
	new ResizeObserver(() => change({})).observe(canvas);
	views.push(drawTimeline);
}

// reveal scrolls the lane of a call into view.
function reveal(i) {
	const lane = timeline.lanes.find(l => l.index === calls.thread[i]);
	const y = lane.y + laneHead + calls.depth[i] * rowHeight, room = $("canvas").clientHeight - axisHeight;
	if (y < timeline.scroll || y + rowHeight > timeline.scroll + room) timeline.scroll = y - room / 2;
}

const isDark = () => state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

// resolved is a colour of the style sheet as canvases take it.
function resolved(style, name) {
	const m = /light-dark\(([^,]+),\s*([^)]+)\)/.exec(style.getPropertyValue(name));
	return m ? m[isDark() ? 2 : 1].trim() : style.getPropertyValue(name).trim();
}
