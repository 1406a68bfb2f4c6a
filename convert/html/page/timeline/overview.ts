// The strip above the timeline: the number of calls that begin over time, in the whole trace, and the part that the
// timeline shows.
import {fitted, sizeCanvas} from "../canvas";
import {byID} from "../dom";
import type {Page} from "../page";
import type {Timeline} from "./timeline";

export function startOverview(page: Page, timeline: Timeline): void {
	const canvas = byID<HTMLCanvasElement>("overview"), {state, calls} = page;
	const draw = () => {
		const {g, width, height} = sizeCanvas(canvas), counts = page.rates.get() ?? new Float64Array(1), left = timeline.gutter, {css} = page.theme;
		const across = width - left, bins = counts.length, x = (v: number) => left + v / calls.span * across;
		const most = counts.reduce((a, b) => Math.max(a, b), 0) || 1;
		g.fillStyle = css.faint;
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
		g.fillStyle = css.back;
		g.globalAlpha = 0.65;
		g.fillRect(left, 0, from - left, height);
		g.fillRect(to, 0, width - to, height);
		g.globalAlpha = 1;
		g.fillStyle = g.strokeStyle = css.accent;
		if (state.selection) g.fillRect(x(state.selection[0]), height - 3, Math.max(2, x(state.selection[1]) - x(state.selection[0])), 3);
		g.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
		if (!left) return;
		g.fillStyle = css.faint;
		const label = page.meta.left ? "calls in the page" : page.format.rate(most * bins, calls.span) || "calls over time";
		g.fillText(fitted(g, label, left - 12), 8, height / 2);
	};
	const go = (e: PointerEvent) => {
		const half = (state.to - state.from) / 2;
		const at = (e.offsetX - timeline.gutter) / Math.max(1, canvas.clientWidth - timeline.gutter) * calls.span;
		page.change({from: at - half, to: at + half});
	};
	canvas.addEventListener("pointerdown", e => {
		canvas.setPointerCapture(e.pointerId);
		go(e);
	});
	canvas.addEventListener("pointermove", e => { if (canvas.hasPointerCapture(e.pointerId)) go(e); });
	new ResizeObserver(() => page.change({})).observe(canvas);
	page.onDraw(draw);
}
