// The call tree, as a table.
import {element} from "../dom";
import {percent, showCount} from "../format";
import type {Tree} from "../model/tree";
import {cell, functionCell, heading, shareCell, virtualTable} from "../table";
import type {View} from "../view";

export const tree: View = {
	name: "tree", title: "call tree",
	start(page, panel) {
		const bar = element("p", {class: "bar"}), open = new Set<number>();
		panel.replaceChildren(bar);
		let tree: Tree | undefined, lines: number[] = [];
		const titles = ([["name", "function"], ["number", "total"], ["number narrow", "share"], ["number", "self"], ["number", "calls"]] as const)
			.map(([name, title]) => heading(title, name));
		const list = (t: Tree) => {
			lines = [];
			const waiting = t.children(0).reverse();
			for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
				lines.push(node);
				if (open.has(node)) waiting.push(...t.children(node).reverse());
			}
		};
		const toggle = (t: Tree, node: number, to: boolean) => {
			if (to) open.add(node);
			else open.delete(node);
			list(t);
		};
		const table = virtualTable(panel, {
			titles, label: "call tree", role: "treegrid", count: () => lines.length,
			show: (row, k) => {
				const t = tree!, node = lines[k]!, inner = t.children(node).length > 0, opened = open.has(node);
				const twist = element("span", {class: "twist", "aria-hidden": "true", onclick: (e: MouseEvent) => {
					e.stopPropagation();
					toggle(t, node, !opened);
					page.change({});
				}}, inner ? (opened ? "▾" : "▸") : "");
				const name = functionCell(page, t.func(node), twist);
				// More indentation would leave no room for names.
				name.style.paddingLeft = Math.min(t.depth(node) - 1, 30) * 14 + "px";
				row.setAttribute("aria-level", String(t.depth(node)));
				row.setAttribute("aria-selected", String(t.func(node) === page.state.func));
				if (inner) row.setAttribute("aria-expanded", String(opened));
				else row.removeAttribute("aria-expanded");
				row.replaceChildren(name, cell(page.format.time(t.total(node)), "number"), shareCell(percent(t.total(node), t.time), t.total(node) / Math.max(t.time, 1)),
					cell(page.format.time(t.self(node)), "number"), cell(showCount(t.calls(node)), "number"));
			},
			press: k => page.change({func: tree!.func(lines[k]!)}),
			key: (e, k) => {
				const t = tree!, node = lines[k]!;
				if (e.key === "ArrowRight") toggle(t, node, true);
				else if (e.key === "ArrowLeft" && open.has(node)) toggle(t, node, false);
				else if (e.key === "ArrowLeft" && t.parent(node) > 0) table.reach(lines.indexOf(t.parent(node)));
				else if (e.key === "Enter") page.pickFunction(t.func(node));
				else return;
				e.preventDefault();
				page.change({});
			},
		});
		return () => {
			const now = page.summed.get()?.paths;
			if (!now) return;
			if (tree !== now) {
				tree = now;
				open.clear();
				// Initially, the path with the largest total is open at each level.
				for (let node = now.children(0)[0]; node !== undefined && now.depth(node) < 50; node = now.children(node)[0]) open.add(node);
				list(now);
			}
			bar.textContent = `${page.where()}: ${page.format.time(now.time)} in calls${page.ofPart()}`;
			table.draw();
		};
	},
};
