package html

import (
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/xray-tools/xray/internal/test/browser"
)

// models returns an empty page with the modules of page/model as a global, without the rest of the page.
func models(t *testing.T) *browser.Page {
	t.Helper()
	result := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: `export * from "./calls"; export * from "./lanes"; export * from "./states"; export * from "./tree"`, ResolveDir: "page/model"},
		Bundle: true, Format: api.FormatIIFE, GlobalName: "model", Target: api.ES2022,
	})
	for _, m := range result.Errors {
		t.Fatalf("%+v: %s", m.Location, m.Text)
	}
	return browser.OpenWith(t, "about:blank", browser.Options{Script: string(result.OutputFiles[0].Contents)})
}

// States, from calls or from profiles, are those that one finds by going through all calls and waits for each interval.
func TestStates(t *testing.T) {
	t.Parallel()
	var wrong string
	models(t).Eval(`(() => {
		const {Calls, Sampler, profilesOf, rowsOf} = model;
		let seed = 7; const random = n => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
		const columns = {func: [], start: [], duration: [], depth: [], ends: []}, waits = {start: [], end: [], blocked: [], queued: [], recorder: []}, threads = [];
		for (let index = 0; index < 2; index++) {
			const first = columns.func.length, wait0 = waits.end.length;
			let now = random(50), deepest = 0;
			const wait = () => {
				const start = now, all = 1 + random(60), known = random(3), queued = known ? random(all) : 0, recorder = known ? random(all - queued + 1) : 0, blocked = known ? random(all - queued - recorder + 1) : 0;
				now += all;
				if (known && !blocked && !queued && !recorder) return;
				for (const [name, v] of Object.entries({start, end: now, blocked, queued, recorder})) waits[name].push(v);
			};
			const call = depth => {
				const at = columns.func.length, start = now;
				for (const [name, v] of Object.entries({func: 0, start, duration: 0, depth, ends: 0})) columns[name].push(v);
				deepest = Math.max(deepest, depth + 1);
				now += 1 + random(9);
				for (let k = random(4); k > 0; k--) {
					if (random(2)) wait();
					else if (depth < 5) call(depth + 1);
					now += 1 + random(9);
				}
				columns.duration[at] = now - start;
			};
			for (let k = 0; k < 60; k++) { call(0); if (random(3)) wait(); now += random(40); }
			threads.push({index, name: "t", pool: "t", first, end: columns.func.length, calls: columns.func.length - first, depth: deepest, row0: index && threads[0].depth, wait0, waitEnd: waits.end.length, start: 0});
		}
		const length = Math.max(...columns.start.map((s, i) => s + columns.duration[i])), depth = Uint32Array.from(columns.depth);
		const typed = {func: Uint32Array.from(columns.func), start: Float64Array.from(columns.start), duration: Float64Array.from(columns.duration), depth, ends: Uint8Array.from(columns.ends)};
		const calls = new Calls(typed, threads, rowsOf(threads, depth, null), Object.fromEntries(Object.entries(waits).map(([k, v]) => [k, Float64Array.from(v)])), length);
		const overlap = (a, b, from, to) => Math.max(0, Math.min(b, to) - Math.max(a, from));
		const slow = (t, from, to) => {
			const sum = {open: 0, depth: 0, blocked: 0, queued: 0, recorder: 0, unknown: 0, inside: 0};
			for (let i = t.first; i < t.end; i++) {
				const part = overlap(calls.start[i], calls.endOf(i), from, to);
				sum.depth += part;
				if (depth[i] === 0) sum.open += part;
			}
			for (let k = t.wait0; k < t.waitEnd; k++) {
				const end = waits.end[k], parts = {queued: waits.queued[k], recorder: waits.recorder[k], blocked: waits.blocked[k]}, all = parts.queued + parts.recorder + parts.blocked;
				let at = end;
				for (const [kind, v] of Object.entries(parts)) { sum[kind] += overlap(at - v, at, from, to); at -= v; }
				const begin = all ? end - all : waits.start[k];
				if (!all) sum.unknown += overlap(begin, end, from, to);
				for (let i = t.first; i < t.end; i++) if (depth[i] === 0 && calls.start[i] <= begin && calls.endOf(i) >= end) { sum.inside += overlap(begin, end, from, to); break; }
			}
			return sum;
		};
		const compare = (what, states, list, from, interval, near) => {
			for (let k = 0; k < states.open.length; k++) {
				const want = {open: 0, depth: 0, blocked: 0, queued: 0, recorder: 0, unknown: 0, inside: 0};
				for (const t of list) for (const [kind, v] of Object.entries(slow(t, from + k * interval, from + (k + 1) * interval))) want[kind] += v / interval;
				for (const kind of Object.keys(want)) if (Math.abs(states[kind][k] - want[kind]) > (kind === "depth" ? 6 : 1) * near) return what + " at " + k + ": " + kind + " is " + states[kind][k] + ", want " + want[kind] + "; ";
			}
			return "";
		};
		let wrong = "";
		for (const [from, interval, n] of [[0, length / 50, 50], [length / 3, 7.5, 40], [-100, 31, 20], [length - 90, 20, 10]]) {
			for (const list of [[threads[0]], threads]) {
				const s = new Sampler(calls, from, interval, n);
				for (const t of list) s.add(t);
				wrong += compare("calls from " + from, s.finish(), list, from, interval, 1e-3);
			}
		}
		const profiles = profilesOf(calls);
		for (const [from, parts, n] of [[0, 16, 16], [length / 4, 100, 30]]) {
			const interval = length / parts, one = new Sampler(calls, from, interval, n), pool = new Sampler(calls, from, interval, n);
			if (!one.addProfile(profiles.levels[1], profiles.parts) || !pool.addProfile(profiles.pools.t.levels, 1 << 13)) return wrong + "not precise";
			// An interval begins and ends within a part of at most a quarter of it, whose time may be off by a quarter.
			wrong += compare("profile from " + from, one.finish(), [threads[1]], from, interval, 0.13) + compare("pool from " + from, pool.finish(), threads, from, interval, 0.26);
		}
		if (new Sampler(calls, 0, length / profiles.parts / 2, 4).addProfile(profiles.levels[0], profiles.parts)) wrong += "a profile is too coarse";
		return wrong;
	})()`, &wrong)
	if wrong != "" {
		t.Error(wrong)
	}
}

// Lanes have their order, the pinned ones are on top, and what fits is unfolded.
func TestLanes(t *testing.T) {
	t.Parallel()
	var got map[string]string
	models(t).Eval(`(() => {
		const threads = n => Array.from({length: n}, (_, index) => ({index, name: "worker-" + (index + 1), pool: index % 3 ? "worker" : "io", calls: 10 + index, depth: 3, start: 100 - index}));
		const lay = (n, options) => model.layLanes({threads: threads(n), order: "trace", moved: [], pinned: [], hidden: [], groups: null, unfolded: null, weight: t => t.index % 5, room: 600, spare: 0, above: 9, ...options});
		const show = ({pinned, lanes}) => pinned.map(l => l.threads[0].index + "!").concat(lanes.map(l => (l.group || l.threads[0].index) + (l.unfolded ? "+" : ""))).join(" ");
		const adds = ({lanes, height}) => lanes.every((l, k) => l.y === (k ? lanes[k - 1].y + lanes[k - 1].height : 0)) && height === lanes.at(-1).y + lanes.at(-1).height;
		return {
			plain: show(lay(4)), one: show(lay(1)), fits: show(lay(4, {spare: 200})), name: show(lay(12, {order: "name"})), start: show(lay(4, {order: "start"})), weight: show(lay(7, {order: "busy"})),
			moved: show(lay(4, {moved: [2, 0]})), pinned: show(lay(4, {pinned: [3], hidden: [0]})), chosen: show(lay(4, {unfolded: [1]})),
			groups: show(lay(41, {room: 100})), opened: show(lay(42, {room: 100, groups: ["io"]})).slice(0, 12), pinnedOfGroup: show(lay(42, {room: 100, pinned: [1]})),
			rows: [40, 30, 10].map(n => lay(n).lanes[0].height).join(), adds: String(adds(lay(40)) && adds(lay(8, {spare: 500}))),
		};
	})()`, &got)
	for name, want := range map[string]string{
		"plain": "0 1 2 3", "one": "0+", "fits": "0 1 2+ 3+", "name": "0 1 2 3 4 5 6 7 8 9 10 11", "start": "3 2 1 0", "weight": "4 3 2 1 6 0 5",
		"moved": "2 0 1 3", "pinned": "3! 1 2", "chosen": "0 1+ 2 3", "groups": "io worker", "opened": "io+ 0 3 6 9 ", "pinnedOfGroup": "1! io worker",
		"rows": "15,20,20", "adds": "true",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}
