// Sorting of calls. Sort keys are integers from 0. Wide keys have a second word.

// Keys returns a word of the sort keys of calls.
export type Keys = (order: Uint32Array, word: number) => Uint32Array;

export function gather(order: Uint32Array, value: (i: number) => number): Uint32Array {
	const keys = new Uint32Array(order.length);
	for (let k = 0; k < order.length; k++) keys[k] = value(order[k]!);
	return keys;
}

export function words(order: Uint32Array, times: Float64Array, word: number): Uint32Array {
	const n = order.length, keys = new Uint32Array(n);
	if (word) for (let k = 0; k < n; k++) keys[k] = times[order[k]!]! / 4294967296;
	else for (let k = 0; k < n; k++) keys[k] = times[order[k]!]! >>> 0;
	return keys;
}

// sorted sorts calls by keys: a stable radix sort, a word of the keys at a time.
export function sorted(calls: Uint32Array, keys: Keys, wordsOfKey: number): Uint32Array {
	let order: Uint32Array = calls.slice();
	for (let word = 0; word < wordsOfKey; word++) order = radix(order, keys(order, word));
	return order;
}

// radix sorts values by keys of 32 bits, 11 at a time, and skips bits that are equal in all.
function radix(values: Uint32Array, keys: Uint32Array): Uint32Array {
	const n = values.length, c0 = new Uint32Array(2048), c1 = new Uint32Array(2048), c2 = new Uint32Array(2048);
	for (let k = 0; k < n; k++) {
		const v = keys[k]!;
		c0[v & 2047]!++;
		c1[v >>> 11 & 2047]!++;
		c2[v >>> 22]!++;
	}
	let spareValues: Uint32Array | null = null, spareKeys: Uint32Array | null = null;
	[c0, c1, c2].forEach((count, pass) => {
		if (count.includes(n)) return;
		spareValues ||= new Uint32Array(n);
		spareKeys ||= new Uint32Array(n);
		let sum = 0;
		for (let d = 0; d < 2048; d++) {
			const c = count[d]!;
			count[d] = sum;
			sum += c;
		}
		scatter(values, keys, spareValues, spareKeys, count, 11 * pass);
		[values, spareValues, keys, spareKeys] = [spareValues, values, spareKeys, keys];
	});
	return values;
}

function scatter(values: Uint32Array, keys: Uint32Array, toValues: Uint32Array, toKeys: Uint32Array, next: Uint32Array, shift: number): void {
	for (let k = 0; k < keys.length; k++) {
		const v = keys[k]!, at = next[v >>> shift & 2047]!++;
		toValues[at] = values[k]!;
		toKeys[at] = v;
	}
}
