// The timeline: threads as lanes, with a row for each depth. Binary search skips calls
// narrower than a pixel, so drawing time depends on the number of pixels, not of calls.
const rowHeight = 17, axisHeight = 22;
// The gutter shows the names of threads. Without a gutter, they are above the calls.
const timeline = {lanes: [], height: 0, gutter: 150, laneTop: 9, drag: null, dragged: false};

const layOut = remembered(() => state.thread + timeline.gutter, () => {
	let y = 0;
	timeline.laneTop = timeline.gutter ? 9 : 20;
	timeline.lanes = threads().map(t => {
		const lane = {t, y, height: Math.max(t.depth, 2) * rowHeight + timeline.laneTop + 1};
		y += lane.height;
		return lane;
	});
	timeline.byThread = new Map(timeline.lanes.map(l => [l.t, l]));
	timeline.height = y;
	$("tall").style.height = Math.min(y, 1.5e7) + "px";
});

// scrolled returns how far the lanes are scrolled, in pixels. If they are too tall for the
// browser's scroll bar, they scroll faster.
function scrolled() {
	const pane = $("lanes"), room = pane.scrollHeight - pane.clientHeight;
	return room > 0 ? pane.scrollTop / room * Math.max(0, timeline.height + axisHeight - pane.clientHeight) : 0;
}

function scrollTo(y) {
	const pane = $("lanes"), all = timeline.height + axisHeight - pane.clientHeight;
	if (all > 0) pane.scrollTop = y / all * (pane.scrollHeight - pane.clientHeight);
}

// viewOf returns the mapping from times to pixels of the canvas.
function viewOf(width) {
	const left = timeline.gutter, perPixel = (state.to - state.from) / Math.max(1, width - left);
	// Align to whole pixels, so that every view draws the same calls.
	const from = Math.round(state.from / perPixel) * perPixel;
	return {left, width, perPixel, from, to: from + (width - left) * perPixel, x: v => left + (v - from) / perPixel};
}

function drawTimeline() {
	timeline.gutter = $("canvas").clientWidth < 600 ? 0 : 150;
	layOut();
	const {g, width, height} = sizeCanvas($("canvas")), view = viewOf(width), scroll = scrolled();
	const colors = {};
	for (const name of ["back", "panel", "text", "faint", "line", "accent", "dim", "onColor"]) colors[name] = cssColor("--" + name);
	const ticks = ticksOf(view);
	g.fillStyle = colors.line;
	g.globalAlpha = 0.5;
	for (const {x} of ticks.all) g.fillRect(Math.round(x), axisHeight, 1, height);
	g.globalAlpha = 1;
	const rows = highlighted();
	const first = bound(0, timeline.lanes.length, k => axisHeight + timeline.lanes[k].y + timeline.lanes[k].height < scroll);
	for (let k = first; k < timeline.lanes.length; k++) {
		const lane = timeline.lanes[k], top = axisHeight + lane.y - scroll;
		if (top > height) break;
		g.save();
		g.beginPath();
		g.rect(view.left, axisHeight, width - view.left, height - axisHeight);
		g.clip();
		const from = Math.max(0, Math.floor((axisHeight - top) / rowHeight) - 1);
		for (let d = from; d < lane.t.depth && top + d * rowHeight < height; d++) {
			const y = top + timeline.laneTop + d * rowHeight;
			drawRow(g, rowOf(lane.t, d), y, view, colors, rows ? colors.dim : "");
			if (rows?.[lane.t.index]) drawRow(g, rows[lane.t.index](d), y, view, colors, "");
		}
		drawEvents(g, lane.t, top, view, colors);
		g.restore();
		drawLaneName(g, lane, top, height, view, colors);
	}
	drawChosen(g, scroll, height, view, colors);
	drawAxis(g, ticks, view, colors);
}

// drawRow draws the calls of one depth. It draws calls within a pixel as one.
function drawRow(g, row, y, {left, width, perPixel, from, to}, colors, dim) {
	const {start, duration, func} = calls, n = row.length;
	let k = bound(0, n, j => start[row[j]] + duration[row[j]] < from), edge = -1;
	while (k < n) {
		const i = row[k], s = start[i];
		if (s > to) break;
		const x = (s - from) / perPixel, right = (s + duration[i] - from) / perPixel;
		const at = Math.max(x, -1), w = Math.max(Math.min(right, width) - at, 1);
		if (at + w > edge) {
			g.fillStyle = dim || functionColor(func[i]);
			g.fillRect(left + at, y, w > 3 ? w - 1 : w, rowHeight - 1);
			edge = at + w;
			if (w > 24 && !dim) {
				g.fillStyle = colors.onColor;
				// The name stays visible as long as its call.
				const visible = Math.max(at, 0);
				g.fillText(fitted(g, nameOf(i), at + w - visible - 7), left + visible + 3, y + rowHeight / 2);
			}
		}
		if (right - x >= 1) {
			k++;
			continue;
		}
		// Continue with the first call that ends on the next pixel.
		const next = from + (Math.floor(x) + 1) * perPixel, before = j => start[row[j]] + duration[row[j]] < next;
		let step = 1;
		while (k + step < n && before(k + step)) step *= 2;
		k = bound(Math.max(k + (step >> 1), k + 1), Math.min(k + step, n), before);
	}
}

// eventsOf returns the events of a thread by time.
function eventsOf(t) {
	if (!t.events) {
		for (const other of meta.threads) other.events = [];
		for (const e of meta.events) meta.threads[e.thread].events.push(e);
	}
	return t.events;
}

function drawEvents(g, t, top, {left, width, perPixel, from, to}, {accent, back}) {
	const events = eventsOf(t);
	g.fillStyle = accent;
	g.strokeStyle = back;
	g.lineWidth = 1;
	for (let k = bound(0, events.length, j => events[j].at < from - 5 * perPixel); k < events.length && events[k].at <= to;) {
		const x = left + (events[k].at - from) / perPixel, y = top + 1;
		g.beginPath();
		g.moveTo(x, y + 7);
		g.lineTo(x - 3.5, y);
		g.lineTo(x + 3.5, y);
		g.closePath();
		g.fill();
		g.stroke();
		const next = events[k].at + 3 * perPixel;
		k = bound(k + 1, events.length, j => events[j].at < next);
	}
}

function drawLaneName(g, {t, height}, top, bottom, {left, width}, {back, text, faint, line}) {
	if (left) {
		g.fillStyle = back;
		g.fillRect(0, Math.max(top, axisHeight), left - 1, height);
		// The name of a tall lane stays visible.
		const y = Math.max(top, Math.min(axisHeight, top + height - 2 * rowHeight - timeline.laneTop)) + 5 + rowHeight / 2;
		g.fillStyle = text;
		g.fillText(fitted(g, t.name, left - 16), 8, y);
		g.fillStyle = faint;
		g.fillText(fitted(g, plural(t.calls, "call"), left - 16), 8, y + 15);
	} else {
		g.fillStyle = text;
		g.strokeStyle = back;
		g.lineWidth = 3;
		g.strokeText(t.name, 4, top + 11);
		g.fillText(t.name, 4, top + 11);
	}
	g.fillStyle = line;
	g.fillRect(0, top + height - 1, width, 1);
	g.fillRect(left - 1, Math.max(top, axisHeight), 1, height);
}

function drawChosen(g, scroll, height, view, {accent, text, back}) {
	const {left, width, x} = view;
	g.save();
	g.beginPath();
	g.rect(left, 0, width - left, height);
	g.clip();
	const range = timeline.drag?.range || state.selection;
	if (range) {
		const [a, b] = range.map(x);
		g.globalAlpha = 0.16;
		g.fillStyle = accent;
		g.fillRect(a, axisHeight, b - a, height);
		g.globalAlpha = 1;
		g.fillRect(a - 1, axisHeight, 1, height);
		g.fillRect(b, axisHeight, 1, height);
		const label = showTime(range[1] - range[0]), w = g.measureText(label).width + 12;
		const at = Math.max(left, Math.min(width - w, (a + b - w) / 2));
		g.fillRect(at, height - 24, w, 18);
		g.fillStyle = back;
		g.fillText(label, at + 6, height - 15);
	}
	const lane = state.call >= 0 && timeline.byThread.get(threadOf(state.call));
	if (lane) {
		const i = state.call, y = axisHeight + lane.y - scroll + timeline.laneTop + calls.depth[i] * rowHeight;
		const from = Math.max(x(calls.start[i]), left - 3), to = Math.min(Math.max(x(endOf(i)), x(calls.start[i]) + 3), width + 3);
		g.strokeStyle = text;
		g.lineWidth = 2;
		if (y > axisHeight - rowHeight) g.strokeRect(from, y - 0.5, to - from, rowHeight);
	}
	g.restore();
}

// ticksOf places the marks of the axis. Far from the start of a long trace, their labels
// count from an anchor.
function ticksOf({left, width, perPixel, from, to, x}) {
	let step = Math.pow(10, Math.ceil(Math.log10(perPixel * 90)));
	if (step / 5 >= perPixel * 90) step /= 5;
	else if (step / 2 >= perPixel * 90) step /= 2;
	step = Math.max(step, 1);
	const anchor = to / step > 2000 ? Math.floor(from / step / 10) * step * 10 : 0, all = [];
	const largest = Math.max(Math.abs(from - anchor), Math.abs(to - anchor));
	const [unit, size] = inTicks ? ["", 1] : units.find(([, size]) => largest >= size) || units[3];
	const digits = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
	for (let k = Math.ceil(from / step); k * step <= to; k++) {
		const v = k * step - anchor;
		all.push({x: x(k * step), label: (anchor ? "+" : "") + (v === 0 ? "0" : Number((v / size).toFixed(digits)).toLocaleString("en") + " " + unit)});
	}
	return {anchor, all};
}

function drawAxis(g, {anchor, all}, {left, width}, {panel, faint, line, text}) {
	g.fillStyle = panel;
	g.fillRect(0, 0, width, axisHeight);
	for (const {x, label} of all) {
		g.fillStyle = line;
		g.fillRect(Math.round(x), 0, 1, axisHeight);
		g.fillStyle = faint;
		g.fillText(label, x + 4, axisHeight / 2 + 1);
	}
	if (left) {
		g.fillStyle = panel;
		g.fillRect(0, 0, left, axisHeight);
		g.fillStyle = text;
		if (anchor) g.fillText(fitted(g, showMoment(anchor), left - 16), 8, axisHeight / 2 + 1);
	}
	g.fillStyle = line;
	g.fillRect(0, axisHeight - 1, width, 1);
}
