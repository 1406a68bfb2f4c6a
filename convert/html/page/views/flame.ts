// The flame graph: all paths that are at least half a pixel wide.
import {Pixels, fitted, sizeCanvas} from "../canvas";
import {element, tip} from "../dom";
import {percent, plural} from "../format";
import {rowHeight} from "../model/lanes";
import {layFlame, type Box, type Tree} from "../model/tree";
import type {View} from "../view";

export const flame: View = {
	name: "flame", title: "flame graph",
	start(page, panel) {
		let tree: Tree | undefined, top = 0, cursor = -1, boxes: Box[] = [];
		const pixels = new Pixels();
		const bar = element("p", {class: "bar", role: "status"}), canvas = element("canvas", {tabindex: "0", role: "application",
			"aria-label": "flame graph: use arrows to select and Enter to zoom. The call tree shows the same data as a table"});
		const space = element("div", {id: "flame-space"}), pane = element("div", {id: "flame-pane"}, space, canvas);
		panel.replaceChildren(bar, pane);

		const about = (t: Tree, node: number): [string, ...string[]] => {
			const func = t.func(node), lines: [string, ...string[]] = [func < 0 ? "all" : page.fullName(func), `total ${page.format.time(t.total(node))}, ${percent(t.total(node), t.time)}`];
			if (func >= 0) lines.push(`self ${page.format.time(t.self(node))}`, plural(t.calls(node), "call"));
			return lines;
		};
		const at = (e: MouseEvent) => {
			const depth = Math.floor((e.offsetY + pane.scrollTop) / rowHeight);
			return boxes.find(b => b.depth === depth && e.offsetX >= b.x && e.offsetX < b.x + b.width)?.node ?? -1;
		};
		const go = (node: number) => {
			top = node === top ? 0 : node;
			cursor = node;
			page.change(tree!.func(node) < 0 ? {} : {func: tree!.func(node)});
		};
		const draw = (t: Tree) => {
			const {g, width, height, scale} = sizeCanvas(canvas, false), chosen = page.matching(), scroll = pane.scrollTop, {theme} = page;
			boxes = layFlame(t, top, width);
			space.style.height = (boxes.reduce((y, box) => Math.max(y, box.depth), 0) + 1) * rowHeight + "px";
			pixels.resize(canvas.width, canvas.height);
			pixels.data.fill(theme.pixel.back);
			const visible = boxes.filter(box => box.depth * rowHeight - scroll > -rowHeight && box.depth * rowHeight - scroll < height);
			const isDim = (box: Box) => t.func(box.node) < 0 || !!chosen && !chosen[t.func(box.node)];
			for (const box of visible) {
				const y = Math.round((box.depth * rowHeight - scroll) * scale), x = Math.round(box.x * scale), right = Math.round((box.x + box.width) * scale);
				pixels.fill(isDim(box) ? theme.pixel.dim : theme.functions[t.func(box.node)]!, x, y, Math.max(right - x - (right - x > 2 ? 1 : 0), 1), Math.round(rowHeight * scale) - 1);
			}
			pixels.put(g);
			for (const box of visible) {
				const y = box.depth * rowHeight - scroll;
				g.globalAlpha = box.faint ? 0.6 : 1;
				if (box.width > 24) {
					g.fillStyle = isDim(box) ? theme.css.text : theme.css.onColor;
					g.fillText(fitted(g, t.func(box.node) < 0 ? "all" : page.shortName(t.func(box.node)), box.width - 7), box.x + 3, y + rowHeight / 2);
				}
				if (box.node === cursor) {
					g.strokeStyle = theme.css.text;
					g.lineWidth = 2;
					g.strokeRect(box.x + 1, y + 1, Math.max(box.width - 3, 1), rowHeight - 3);
				}
			}
			g.globalAlpha = 1;
		};

		canvas.addEventListener("pointermove", e => {
			const node = at(e);
			canvas.style.cursor = node >= 0 ? "pointer" : "";
			if (tree && node >= 0) tip(e, ...about(tree, node));
			else tip(e);
		});
		canvas.addEventListener("pointerleave", e => tip(e));
		canvas.addEventListener("click", e => { if (at(e) >= 0) go(at(e)); });
		canvas.addEventListener("dblclick", e => { if (tree && at(e) > 0) page.pickFunction(tree.func(at(e))); });
		canvas.addEventListener("keydown", e => {
			if (!tree || e.ctrlKey || e.metaKey || e.altKey) return;
			const node = cursor >= 0 ? cursor : top, t = tree;
			const keys: Record<string, () => number> = {
				ArrowUp: () => t.parent(node), ArrowDown: () => t.children(node)[0] ?? -1, ArrowLeft: () => t.beside(node, -1), ArrowRight: () => t.beside(node, 1),
			};
			const key = keys[e.key];
			if (key) {
				cursor = key() < 0 ? node : key();
				const y = t.depth(cursor) * rowHeight;
				if (y < pane.scrollTop || y + rowHeight > pane.scrollTop + pane.clientHeight) pane.scrollTop = y - pane.clientHeight / 2;
				page.change(t.func(cursor) < 0 ? {} : {func: t.func(cursor)});
			} else if (e.key === "Enter") go(node);
			else return;
			e.preventDefault();
		});
		pane.addEventListener("scroll", () => page.change({}));
		new ResizeObserver(() => page.change({})).observe(pane);
		return () => {
			const now = page.summed.get()?.paths;
			if (!now) return;
			if (tree !== now) [tree, top, cursor] = [now, 0, -1];
			const chosen = page.matching(), shown = cursor > 0 ? `${page.shortName(now.func(cursor))} ${about(now, cursor).slice(1).join(", ")}` : "click to zoom, double-click to show the function";
			bar.textContent = [`${page.where()}: ${page.format.time(now.time)} in calls${page.ofPart()}`,
				chosen && `${percent(now.matched(chosen), now.time)} in matching functions`, shown].filter(part => part).join("; ");
			draw(now);
			Object.assign(canvas.dataset, {boxes: boxes.length, cursor, top, func: cursor < 0 ? -1 : now.func(cursor)});
		};
	},
};
