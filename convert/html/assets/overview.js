// The strip above the timeline: the number of calls that begin over time, in the whole
// trace, and the part that the timeline shows.
const bins = 1024;

const rates = remembered(() => state.thread, () => {
	const counts = new Float64Array(bins), width = calls.end / bins;
	for (const t of threads()) {
		for (let i = t.first; i < t.end; i++) counts[Math.min(calls.start[i] / width | 0, bins - 1)]++;
	}
	return counts;
});

function drawOverview() {
	const {g, width, height} = sizeCanvas($("overview")), counts = rates(), left = timeline.gutter;
	const across = width - left, x = v => left + v / calls.end * across;
	const most = counts.reduce((a, b) => Math.max(a, b), 0) || 1;
	g.fillStyle = cssColor("--faint");
	g.globalAlpha = 0.6;
	g.beginPath();
	g.moveTo(left, height);
	counts.forEach((v, k) => {
		g.lineTo(left + k / bins * across, height - v / most * (height - 3));
		g.lineTo(left + (k + 1) / bins * across, height - v / most * (height - 3));
	});
	g.lineTo(width, height);
	g.fill();
	g.globalAlpha = 1;
	const from = Math.max(left, x(state.from)), to = Math.min(width, x(state.to));
	g.fillStyle = cssColor("--back");
	g.globalAlpha = 0.65;
	g.fillRect(left, 0, from - left, height);
	g.fillRect(to, 0, width - to, height);
	g.globalAlpha = 1;
	g.fillStyle = cssColor("--accent");
	if (state.selection) g.fillRect(x(state.selection[0]), height - 3, Math.max(2, x(state.selection[1]) - x(state.selection[0])), 3);
	g.strokeStyle = cssColor("--accent");
	g.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
	if (left) {
		g.fillStyle = cssColor("--faint");
		const rate = most * bins / calls.end * (inTicks ? 1 : 1e9);
		const label = meta.left ? "calls in the page" : inTicks || calls.end < 1e4 ? "calls over time" : `≤ ${showCount(Number(rate.toPrecision(2)))} calls/s`;
		g.fillText(fitted(g, label, left - 12), 8, height / 2);
	}
}

function startOverview() {
	const canvas = $("overview");
	const go = e => {
		const half = (state.to - state.from) / 2;
		const at = (e.offsetX - timeline.gutter) / Math.max(1, canvas.clientWidth - timeline.gutter) * calls.end;
		change({from: at - half, to: at + half});
	};
	canvas.addEventListener("pointerdown", e => {
		canvas.setPointerCapture(e.pointerId);
		go(e);
	});
	canvas.addEventListener("pointermove", e => {
		if (canvas.hasPointerCapture(e.pointerId)) go(e);
	});
	new ResizeObserver(() => change({})).observe(canvas);
	views.push(drawOverview);
}
