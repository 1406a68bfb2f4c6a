// Colors. A function's color depends only on its name, so that it is the same in all pages.

// hex converts a color from OKLCH, where colors of equal lightness look equally bright.
function hex(lightness: number, chroma: number, hue: number): string {
	const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
	const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
	const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
	const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
	return "#" + [
		4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
		-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
		-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
	].map(v => {
		const c = Math.min(1, Math.max(0, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055));
		return Math.round(255 * c).toString(16).padStart(2, "0");
	}).join("");
}

// pixel packs a color of the form #rrggbb as ImageData stores it.
export function pixel(color: string): number {
	const v = parseInt(color.trim().slice(1), 16);
	return (0xff000000 | (v & 255) << 16 | v & 0xff00 | v >> 16) >>> 0;
}

// mix returns a pixel between two, nearer to b the larger share is.
export function mix(a: number, b: number, share: number): number {
	const part = (shift: number) => {
		const x = a >>> shift & 255, y = b >>> shift & 255;
		return Math.round(x + (y - x) * share) << shift;
	};
	return (0xff000000 | part(16) | part(8) | part(0)) >>> 0;
}

const names = ["back", "panel", "text", "faint", "line", "accent", "dim", "onColor", "running", "deepest", "blocked", "queued", "recorder"] as const;
export type ColorName = (typeof names)[number];

// Theme has the colors of the light or the dark theme: those of the style sheet, and those of functions.
export class Theme {
	readonly css: Record<ColorName, string>;
	readonly pixel: Record<ColorName, number>;
	// functions are pixels, by the number of the function.
	readonly functions: Uint32Array;
	private readonly texts: string[];

	constructor(readonly dark: boolean, functions: string[]) {
		const style = getComputedStyle(document.documentElement);
		this.css = Object.fromEntries(names.map(n => [n, style.getPropertyValue("--" + n).trim()])) as Record<ColorName, string>;
		this.pixel = Object.fromEntries(names.map(n => [n, pixel(this.css[n])])) as Record<ColorName, number>;
		this.texts = functions.map(name => functionColor(name, dark));
		this.functions = Uint32Array.from(this.texts, pixel);
	}

	functionColor(f: number): string { return this.texts[f]!; }
}

function functionColor(name: string, dark: boolean): string {
	let h = 2166136261;
	for (let k = 0; k < name.length; k++) h = Math.imul(h ^ name.charCodeAt(k), 16777619);
	h = Math.imul(h ^ h >>> 15, 0x2c1b3c6d);
	h = (h ^ h >>> 13) >>> 0;
	const vary = (h >>> 9) % 8 / 7;
	return dark ? hex(0.44 + 0.08 * vary, 0.09, h % 360) : hex(0.80 + 0.07 * vary, 0.095, h % 360);
}
