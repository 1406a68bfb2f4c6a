// The tree of call paths of a selection. Node 0 is its root. The children of a node are next to each other,
// largest total first.

export interface TreeData {
	func: Int32Array; // -1 for the root
	parent: Int32Array; first: Uint32Array; count: Uint32Array; depth: Uint32Array; calls: Uint32Array;
	total: Float64Array; self: Float64Array;
}

export class Tree {
	constructor(readonly data: TreeData) {}

	get time(): number { return this.data.total[0]!; }

	func(node: number): number { return this.data.func[node]!; }
	parent(node: number): number { return this.data.parent[node]!; }
	depth(node: number): number { return this.data.depth[node]!; }
	total(node: number): number { return this.data.total[node]!; }
	self(node: number): number { return this.data.self[node]!; }
	calls(node: number): number { return this.data.calls[node]!; }

	// children returns the children of a node, largest total first.
	children(node: number): number[] {
		return Array.from({length: this.data.count[node]!}, (_, k) => this.data.first[node]! + k);
	}

	// beside returns the next or the previous sibling of a node, or -1.
	beside(node: number, by: number): number {
		if (node === 0) return -1;
		const parent = this.parent(node), first = this.data.first[parent]!, to = node + by;
		return to >= first && to < first + this.data.count[parent]! ? to : -1;
	}

	// matched returns the time of the outermost paths to chosen functions.
	matched(chosen: Uint8Array): number {
		let sum = 0;
		const inside = new Uint8Array(this.data.func.length);
		for (let node = 1; node < inside.length; node++) {
			inside[node] = inside[this.parent(node)]!; // parents come first
			if (inside[node] || !chosen[this.func(node)]) continue;
			inside[node] = 1;
			sum += this.total(node);
		}
		return sum;
	}
}

export interface Box { node: number; x: number; width: number; depth: number; faint: boolean }

// layFlame places the paths below a node that are at least half a pixel wide, and its callers above it.
export function layFlame(tree: Tree, top: number, width: number): Box[] {
	const boxes: Box[] = [];
	for (let node = tree.parent(top); node >= 0; node = tree.parent(node)) boxes.unshift({node, x: 0, width, depth: tree.depth(node), faint: true});
	const perPixel = Math.max(tree.total(top), 1) / width;
	const waiting: Box[] = [{node: top, x: 0, width, depth: tree.depth(top), faint: false}];
	for (let box = waiting.pop(); box; box = waiting.pop()) {
		boxes.push(box);
		let x = box.x;
		for (const node of tree.children(box.node)) {
			const w = tree.total(node) / perPixel;
			if (w < 0.5) break; // the others are not longer
			waiting.push({node, x, width: w, depth: tree.depth(node), faint: false});
			x += w;
		}
	}
	return boxes;
}

interface Node { func: number; parent: number; calls: number; total: number; self: number; children: Map<number, Node>; last: Node | null }

// TreeBuilder adds up calls by path.
export class TreeBuilder {
	readonly root: Node = {func: -1, parent: -1, calls: 0, total: 0, self: 0, children: new Map(), last: null};
	readonly path: Node[] = [this.root];

	// enter opens a call of the function in the innermost open call.
	enter(func: number): Node {
		const parent = this.path[this.path.length - 1]!;
		let node = parent.last;
		if (!node || node.func !== func) {
			node = parent.children.get(func) ?? null;
			if (!node) {
				node = {func, parent: -1, calls: 0, total: 0, self: 0, children: new Map(), last: null};
				parent.children.set(func, node);
			}
			parent.last = node;
		}
		this.path.push(node);
		return node;
	}

	// finish returns the tree without paths that have no calls. rank orders functions of equal totals.
	finish(rank: Uint32Array): TreeData {
		const nodes: {node: Node; parent: number; depth: number}[] = [{node: this.root, parent: -1, depth: 0}], first: number[] = [], count: number[] = [];
		for (let k = 0; k < nodes.length; k++) {
			const {node, depth} = nodes[k]!, children = Array.from(node.children.values()).filter(c => c.calls > 0)
				.sort((x, y) => y.total - x.total || rank[x.func]! - rank[y.func]!);
			first.push(nodes.length);
			count.push(children.length);
			for (const child of children) nodes.push({node: child, parent: k, depth: depth + 1});
		}
		return {
			func: Int32Array.from(nodes, e => e.node.func), parent: Int32Array.from(nodes, e => e.parent), depth: Uint32Array.from(nodes, e => e.depth),
			first: Uint32Array.from(first), count: Uint32Array.from(count), calls: Uint32Array.from(nodes, e => e.node.calls),
			total: Float64Array.from(nodes, e => e.node.total), self: Float64Array.from(nodes, e => e.node.self),
		};
	}
}
