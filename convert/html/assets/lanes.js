// Pointer and keyboard events of the timeline.
const laneAt = y => timeline.lanes[bound(0, timeline.lanes.length, k => timeline.lanes[k].y + timeline.lanes[k].height <= y)];

// at returns the lane at a point of the canvas, and the call or event in it.
function at(x, y) {
	const view = viewOf($("canvas").clientWidth), down = y - axisHeight + scrolled();
	const lane = y < axisHeight ? undefined : laneAt(down), what = {lane, call: -1, event: null, gutter: x < view.left};
	if (!lane || what.gutter) return what;
	const time = view.from + (x - view.left) * view.perPixel, near = view.perPixel;
	const top = down - lane.y - timeline.laneTop;
	if (top < 0) what.event = eventsOf(lane.t).find(e => Math.abs(e.at - time) <= 4 * near) || null;
	if (what.event || top < 0) return what;
	const {start, duration} = calls, depth = Math.floor(top / rowHeight);
	// Highlighted calls were drawn on top of the others.
	const rows = highlighted()?.[lane.t.index];
	for (const row of rows ? [rows(depth), rowOf(lane.t, depth)] : [rowOf(lane.t, depth)]) {
		const k = bound(0, row.length, j => start[row[j]] + duration[row[j]] < time - near);
		// Of the calls within a pixel, choose the one at this point.
		const over = k + 1 < row.length && start[row[k + 1]] <= time ? k + 1 : k;
		if (over < row.length && start[row[over]] <= time + near) {
			what.call = row[over];
			break;
		}
	}
	return what;
}

function zoom(factor, share = 0.5) {
	const span = state.to - state.from, at = state.from + span * share;
	change({from: at - span * factor * share, to: at + span * factor * (1 - share)});
}

function move(share) {
	const by = (state.to - state.from) * share;
	change({from: state.from + by, to: state.to + by});
}

// fit shows the selected call, then the selected time range, then the whole trace.
function fit() {
	const {from, to} = state;
	if (state.call >= 0) {
		choose(state.call, true);
		if (state.from !== from || state.to !== to) return;
	}
	if (state.selection && (from !== state.selection[0] || to !== state.selection[1])) change({from: state.selection[0], to: state.selection[1]});
	else change({from: 0, to: calls.end});
}

// markCall selects the time range of the selected call.
function markCall() {
	const i = state.call;
	if (i >= 0) change({selection: [calls.start[i], Math.max(endOf(i), calls.start[i] + 1)]});
	fillInputs();
}

// neighbour returns the next, previous, enclosing or inner call of a call, or -1.
function neighbour(i, key) {
	const t = threadOf(i), depth = calls.depth[i];
	switch (key) {
	case "ArrowUp":
		return calls.parent[i];
	case "ArrowDown":
		return i + 1 < t.end && calls.depth[i + 1] > depth ? i + 1 : -1;
	}
	const row = rowOf(t, depth);
	const k = bound(0, row.length, j => row[j] < i) + (key === "ArrowRight" ? 1 : -1);
	return k >= 0 && k < row.length ? row[k] : -1;
}

// reveal scrolls the lane of a call into view.
function reveal(i) {
	const lane = timeline.byThread.get(threadOf(i));
	if (!lane) return;
	const y = lane.y + timeline.laneTop + calls.depth[i] * rowHeight, room = $("lanes").clientHeight - axisHeight;
	if (y < scrolled() || y + rowHeight > scrolled() + room) scrollTo(y - room / 2);
}

function pressLane({lane}) {
	if (!lane) return;
	const only = "^" + escaped(lane.t.name) + "$";
	change({thread: state.thread === only ? "" : only});
	fillInputs();
}

function startTimeline() {
	const canvas = $("canvas");
	const timeAt = x => {
		const view = viewOf(canvas.clientWidth);
		return Math.max(0, Math.min(calls.end, view.from + (x - view.left) * view.perPixel));
	};
	canvas.addEventListener("pointerdown", e => {
		if (e.button !== 0 || e.pointerType === "touch") return;
		timeline.dragged = false;
		if (at(e.offsetX, e.offsetY).gutter) return;
		timeline.drag = {x: e.offsetX, time: timeAt(e.offsetX), range: null};
		canvas.setPointerCapture(e.pointerId);
	});
	canvas.addEventListener("pointermove", e => {
		const {drag} = timeline;
		if (drag && (drag.range || Math.abs(e.offsetX - drag.x) > 3)) {
			const now = timeAt(e.offsetX);
			drag.range = [Math.min(drag.time, now), Math.max(drag.time, now)];
			drawTimeline();
			showTip(e);
			return;
		}
		const what = at(e.offsetX, e.offsetY);
		canvas.style.cursor = what.gutter || what.call >= 0 ? "pointer" : "crosshair";
		if (what.call >= 0) showCallTip(e, what.call);
		else if (what.event) showTip(e, what.event.text, "at " + showMoment(what.event.at), showDate(what.event.at));
		else if (what.gutter && what.lane) showTip(e, what.lane.t.name, plural(what.lane.t.calls, "call"), state.thread ? "" : "click to show only this thread");
		else showTip(e);
	});
	canvas.addEventListener("pointerup", e => {
		const range = timeline.drag?.range;
		timeline.drag = null;
		timeline.dragged = !!range;
		if (range && range[0] < range[1]) {
			change({selection: range});
			fillInputs();
		}
	});
	canvas.addEventListener("pointercancel", () => { timeline.drag = null; });
	canvas.addEventListener("click", e => {
		if (timeline.dragged) return;
		const what = at(e.offsetX, e.offsetY);
		if (what.gutter) pressLane(what);
		else choose(what.call, false);
	});
	canvas.addEventListener("pointerleave", e => showTip(e));
	canvas.addEventListener("dblclick", e => {
		const {call} = at(e.offsetX, e.offsetY);
		if (call >= 0) choose(call, true);
	});
	canvas.addEventListener("wheel", e => {
		const view = viewOf(canvas.clientWidth);
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) move((e.deltaX || e.deltaY) / 1000);
		else if (e.ctrlKey || e.metaKey) zoom(Math.pow(1.002, e.deltaY), Math.max(0, (e.offsetX - view.left) / (view.width - view.left)));
		else return; // the lanes scroll
		e.preventDefault();
	}, {passive: false});
	canvas.addEventListener("keydown", e => {
		if (!e.key.startsWith("Arrow") || e.ctrlKey || e.metaKey || e.altKey) return;
		e.preventDefault();
		if (state.call < 0) {
			if (e.key === "ArrowDown" || e.key === "ArrowUp") scrollTo(scrolled() + (e.key === "ArrowDown" ? 40 : -40));
			else move(e.key === "ArrowRight" ? 0.2 : -0.2);
			return;
		}
		const next = neighbour(state.call, e.key);
		if (next >= 0) {
			reveal(next);
			choose(next, false);
		}
	});
	$("lanes").addEventListener("scroll", () => change({}));
	new ResizeObserver(() => change({})).observe(canvas);
	views.push(drawTimeline);
}
