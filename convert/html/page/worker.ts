// The worker's side: decodes the data, and answers queries in the order in which they come.
import {decode, type Texts} from "./model/decode";
import type {Columns, Rows, Thread, Waits} from "./model/calls";
import type {Meta} from "./model/meta";
import {Query} from "./model/query";

export interface Loaded { meta: Meta; columns: Columns; threads: Thread[]; rows: Rows; waits: Waits; length: number; rank: Uint32Array }

export type Name = "find" | "list" | "sum" | "rates" | "details" | "profiles";
export type Request = {id: number; load: Texts} | {id: number; name: Name; args: unknown[]};
export type Response = {id: number; value?: unknown; error?: string};

export function serve(scope: {onmessage: ((e: MessageEvent<Request>) => void) | null; postMessage(r: Response, transfer: Transferable[]): void}): void {
	let query: Query | null = null;
	const answer = async (r: Request): Promise<unknown> => {
		if ("load" in r) {
			const {meta, calls} = await decode(r.load), {func, start, duration, depth, ends} = calls;
			query = new Query(calls, meta);
			return {
				meta, threads: calls.threads, length: calls.length, rank: query.rank.slice(),
				columns: {func: func.slice(), start: start.slice(), duration: duration.slice(), depth: depth.slice(), ends: ends.slice()},
				rows: {order: calls.rows.order.slice(), from: calls.rows.from.slice()}, waits: calls.waits,
			} satisfies Loaded;
		}
		const method = query![r.name] as (...args: unknown[]) => unknown;
		return method.apply(query, r.args);
	};
	scope.onmessage = e => {
		answer(e.data).then(value => scope.postMessage({id: e.data.id, value}, "load" in e.data ? columnsOf(value as Loaded) : buffers(value)),
			error => scope.postMessage({id: e.data.id, error: String(error)}, []));
	};
}

// columnsOf returns the buffers of copies, which the page gets. The worker keeps the rest.
const columnsOf = (l: Loaded): Transferable[] => [...buffers(l.columns), ...buffers(l.rows), l.rank.buffer];

// buffers returns the buffers of arrays in a result, which is the caller's.
function buffers(value: unknown): Transferable[] {
	if (ArrayBuffer.isView(value)) return [value.buffer];
	if (typeof value !== "object" || value === null) return [];
	return Object.values(value).flatMap(buffers);
}
