// The page's side of the worker.
import {Calls} from "./model/calls";
import type {Texts} from "./model/decode";
import type {Query} from "./model/query";
import type {Loaded, Name, Request, Response} from "./worker";

export class Engine {
	private readonly worker: Worker;
	private readonly waiting = new Map<number, {done: (value: never) => void; fail: (error: Error) => void}>();
	private last = 0;

	// The worker runs the page's own script.
	constructor(script: string) {
		const url = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
		this.worker = new Worker(url);
		this.worker.onmessage = (e: MessageEvent<Response>) => {
			const {id, value, error} = e.data, {done, fail} = this.waiting.get(id)!;
			this.waiting.delete(id);
			if (error === undefined) done(value as never);
			else fail(new Error(error));
		};
		this.worker.onerror = e => {
			for (const {fail} of this.waiting.values()) fail(new Error(e.message || "the browser does not start its worker"));
		};
	}

	private send<T>(message: Request, transfer: Transferable[] = []): Promise<T> {
		return new Promise((done, fail) => {
			this.waiting.set(message.id, {done, fail});
			this.worker.postMessage(message, transfer);
		});
	}

	async load(texts: Texts): Promise<{loaded: Loaded; calls: Calls}> {
		const loaded = await this.send<Loaded>({id: ++this.last, load: texts});
		return {loaded, calls: new Calls(loaded.columns, loaded.threads, loaded.rows, loaded.waits, loaded.length)};
	}

	// ask runs a query in the worker.
	ask<N extends Name>(name: N, ...args: Parameters<Query[N]>): Promise<ReturnType<Query[N]>> {
		return this.send({id: ++this.last, name, args});
	}
}
