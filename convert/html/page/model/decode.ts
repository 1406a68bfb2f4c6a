// Decoding of the data in the page: varints, compressed with deflate, in base64.
import {Calls, rowsOf, type Thread} from "./calls";
import {addSums, complete, type Meta} from "./meta";

export const columnNames = ["meta", "funcs", "starts", "durations", "depths", "ends", "sums", "waits"] as const;
export type Texts = Record<(typeof columnNames)[number], string>;

async function inflate(text: string): Promise<Uint8Array> {
	const packed = atob(text), bytes = new Uint8Array(packed.length);
	for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

// numbers decodes numbers of 7 bits per byte, the lowest bits first.
function numbers(bytes: Uint8Array): () => number {
	let at = 0;
	return () => {
		let b = bytes[at++]!, v = b & 127;
		for (let scale = 128; b > 127; scale *= 128) {
			b = bytes[at++]!;
			v += (b & 127) * scale;
		}
		return v;
	};
}

async function column<T extends Uint32Array | Float64Array | Uint8Array>(text: string, into: T): Promise<T> {
	const bytes = await inflate(text);
	for (let i = 0, at = 0; i < into.length; i++) {
		let b = bytes[at++]!, v = b & 127;
		for (let scale = 128; b > 127; scale *= 128) {
			b = bytes[at++]!;
			v += (b & 127) * scale;
		}
		into[i] = v;
	}
	return into;
}

// decode returns what a page holds.
export async function decode(texts: Texts): Promise<{meta: Meta; calls: Calls}> {
	const meta = JSON.parse(new TextDecoder().decode(await inflate(texts.meta))) as Meta;
	complete(meta);
	const n = meta.threads.reduce((sum, t) => sum + t.calls, 0);
	const [func, start, duration, depth, ends] = await Promise.all([
		column(texts.funcs, new Uint32Array(n)), column(texts.starts, new Float64Array(n)), column(texts.durations, new Float64Array(n)),
		column(texts.depths, new Uint32Array(n)), column(texts.ends, new Uint8Array(n)),
	]);
	let first = 0, length = 0, row0 = 0, wait0 = 0;
	const threads = meta.threads.map((t, index): Thread => {
		const end = first + t.calls;
		let now = 0, deepest = 0;
		for (let i = first; i < end; i++) {
			start[i] = now += start[i]!;
			deepest = Math.max(deepest, depth[i]! + 1);
			length = Math.max(length, now + duration[i]!);
		}
		const thread = {index, name: t.name, pool: t.pool, calls: t.calls, first, end, depth: deepest, row0, wait0, waitEnd: wait0 + t.waits, start: t.calls ? start[first]! : Infinity};
		first = end;
		row0 += deepest;
		wait0 += t.waits;
		return thread;
	});
	for (const e of meta.events) length = Math.max(length, e.at);
	if (meta.octaves) addSums(meta, numbers(await inflate(texts.sums)));
	const next = numbers(await inflate(texts.waits));
	const waits = {start: new Float64Array(wait0), end: new Float64Array(wait0), blocked: new Float64Array(wait0), queued: new Float64Array(wait0), recorder: new Float64Array(wait0)};
	for (const t of threads) {
		for (let k = t.wait0, now = 0; k < t.waitEnd; k++) {
			waits.start[k] = now += next();
			waits.end[k] = now += next();
			waits.blocked[k] = next();
			waits.queued[k] = next();
			waits.recorder[k] = next();
		}
	}
	return {meta, calls: new Calls({func, start, duration, depth, ends}, threads, rowsOf(threads, depth, null), waits, length)};
}
