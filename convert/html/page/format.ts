// Formats of times and numbers.

export const showCount = (n: number): string => n.toLocaleString("en");
export const plural = (n: number, one: string): string => showCount(n) + " " + (n === 1 ? one : one + "s");
export const percent = (v: number, of: number): string => of > 0 ? (100 * v / of).toFixed(1) + " %" : "";

type Unit = readonly [string, number];
const seconds: Unit = ["s", 1e9], millis: Unit = ["ms", 1e6], micros: Unit = ["µs", 1e3], nanos: Unit = ["ns", 1];
const units = [seconds, millis, micros, nanos];
const largestUnit = (v: number): Unit => units.find(([, size]) => Math.abs(v) >= size) ?? nanos;

// Format formats the times of a trace.
export class Format {
	private readonly inTicks: boolean;

	// span is the length of the trace, and epoch the nanoseconds since 1970 at its beginning, if they are known.
	constructor(readonly unit: string, private readonly span: number, private readonly epoch: string | undefined) {
		this.inTicks = unit !== "ns";
	}

	// time formats a duration with four digits.
	time(v: number): string {
		if (this.inTicks) return showCount(Math.round(v)) + " ticks";
		if (v >= 1e12) return showCount(Math.round(v / 1e9)) + " s";
		for (const [unit, size] of [seconds, millis, micros]) {
			if (Math.abs(v) >= size) return (v / size).toPrecision(4) + " " + unit;
		}
		return Math.round(v) + " ns";
	}

	// moment formats a point in time with all its digits, always in the same unit.
	moment(v: number): string {
		if (this.inTicks) return showCount(Math.round(v));
		const [unit, size] = this.span >= 1e9 ? seconds : this.span >= 1e6 ? millis : micros;
		const [whole, part] = (Math.round(v) / size).toFixed(Math.log10(size)).split(".");
		return showCount(Number(whole)) + "." + part!.replace(/\d{3}(?=\d)/g, "$&\u2009") + " " + unit;
	}

	// exact formats a time as a user would type it.
	exact(v: number): string {
		if (this.inTicks) return String(Math.round(v));
		const [unit, size] = largestUnit(v);
		return Number((v / size).toFixed(Math.log10(size))) + (unit === "µs" ? "us" : unit);
	}

	// parse reads a time that a user typed, for example 5us, or returns NaN.
	parse(text: string): number {
		const m = /^\s*(\d+\.?\d*|\.\d+)\s*(s|ms|us|µs|ns|ticks|)\s*$/.exec(text);
		if (!m || this.inTicks && m[2] && m[2] !== "ticks" || !this.inTicks && m[2] === "ticks") return NaN;
		const scale: Record<string, number> = {s: 1e9, ms: 1e6, us: 1e3, "µs": 1e3};
		return Number(m[1]) * (scale[m[2]!] ?? 1);
	}

	// parseRange reads a time range, or returns null if it is invalid.
	parseRange(text: string): [number, number] | null {
		const [a, b] = text.split(/\s*(?:-|–|to)\s*/).map(part => this.parse(part));
		return a !== undefined && b !== undefined && a < b ? [a, b] : null;
	}

	// date formats the date of a point in time, or returns "" if it is unknown.
	date(v: number): string {
		if (!this.epoch) return "";
		const at = BigInt(this.epoch) + BigInt(Math.round(v)), whole = Number(at / 1000000000n);
		return new Date(whole * 1000).toISOString().replace("T", " ").replace(/\.000Z$/, "." + String(at % 1000000000n).padStart(9, "0")) + " UTC";
	}

	// rate formats a number of calls in a time as a rate, or returns "" if times are ticks or too short.
	rate(calls: number, time: number): string {
		if (this.inTicks || this.span < 1e4) return "";
		return `≤ ${showCount(Number((calls * 1e9 / time).toPrecision(2)))} calls/s`;
	}

	// ticks places the marks of an axis, at least 90 pixels apart. Far from the start of a long trace, their labels
	// count from an anchor.
	ticks(from: number, to: number, perPixel: number): {anchor: number; marks: {at: number; label: string}[]} {
		let step = Math.pow(10, Math.ceil(Math.log10(perPixel * 90)));
		if (step / 5 >= perPixel * 90) step /= 5;
		else if (step / 2 >= perPixel * 90) step /= 2;
		step = Math.max(step, 1);
		const anchor = to / step > 2000 ? Math.floor(from / step / 10) * step * 10 : 0, marks = [];
		const largest = Math.max(Math.abs(from - anchor), Math.abs(to - anchor));
		const [unit, size] = this.inTicks ? ["", 1] as const : largestUnit(largest);
		const digits = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
		for (let k = Math.ceil(from / step); k * step <= to; k++) {
			const v = k * step - anchor;
			marks.push({at: k * step, label: (anchor ? "+" : "") + (v === 0 ? "0" : Number((v / size).toFixed(digits)).toLocaleString("en") + " " + unit)});
		}
		return {anchor, marks};
	}
}
