// Drawing on canvases: small things as pixels, text by the browser.
import {bound} from "./model/calls";

export interface Sized { g: CanvasRenderingContext2D; width: number; height: number; scale: number }

// sizeCanvas sizes a canvas to the pixels of the screen, and returns its context.
export function sizeCanvas(canvas: HTMLCanvasElement, clear = true): Sized {
	const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
	const w = Math.round(width * scale), h = Math.round(height * scale);
	if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, {width: w, height: h});
	const g = canvas.getContext("2d")!;
	g.setTransform(scale, 0, 0, scale, 0, 0);
	if (clear) g.clearRect(0, 0, width, height);
	g.font = "11px system-ui, sans-serif";
	g.textBaseline = "middle";
	return {g, width, height, scale};
}

// Pixels is a picture of a canvas in memory. Places and lengths are pixels of the screen.
export class Pixels {
	private image: ImageData | null = null;
	data = new Uint32Array(0);
	width = 0;
	height = 0;

	resize(width: number, height: number): void {
		if (this.image && this.width === width && this.height === height) return;
		this.image = new ImageData(Math.max(width, 1), Math.max(height, 1));
		this.data = new Uint32Array(this.image.data.buffer);
		this.width = Math.max(width, 1);
		this.height = Math.max(height, 1);
	}

	// repeat copies the line at from to the lines after it, up to to.
	repeat(from: number, to: number): void {
		const w = this.width, end = Math.min(to, this.height);
		for (let y = from + 1; y < end; y++) this.data.copyWithin(y * w, from * w, (from + 1) * w);
	}

	fill(color: number, x: number, y: number, width: number, height: number): void {
		const a = Math.max(0, x), b = Math.min(this.width, x + width), end = Math.min(this.height, y + height);
		if (a < b) for (let row = Math.max(0, y); row < end; row++) this.data.fill(color, row * this.width + a, row * this.width + b);
	}

	// veil takes pixels, except those of the background, three quarters of the way to a color.
	veil(color: number, back: number, x: number, y: number, width: number, height: number): void {
		const a = Math.max(0, x), b = Math.min(this.width, x + width), end = Math.min(this.height, y + height), most = 3 * ((color & 0xfcfcfc) >>> 2);
		for (let row = Math.max(0, y); row < end; row++) {
			for (let k = row * this.width + a; k < row * this.width + b; k++) {
				const v = this.data[k]!;
				if (v !== back) this.data[k] = (0xff000000 | ((v & 0xfcfcfc) >>> 2) + most) >>> 0;
			}
		}
	}

	// hatch draws diagonal lines.
	hatch(color: number, x: number, y: number, width: number, height: number): void {
		const a = Math.max(0, x), b = Math.min(this.width, x + width), end = Math.min(this.height, y + height);
		for (let row = Math.max(0, y); row < end; row++) {
			for (let at = a; at < b; at++) if ((at + row) % 6 < 2) this.data[row * this.width + at] = color;
		}
	}

	put(g: CanvasRenderingContext2D): void { g.putImageData(this.image!, 0, 0); }
}

// fitted cuts the beginning of a text to a width of the canvas, so that the end of a name stays.
export function fitted(g: CanvasRenderingContext2D, text: string, width: number): string {
	if (width < 12) return "";
	const most = Math.ceil(width / 3), n = text.length;
	if (n <= most && g.measureText(text).width <= width) return text;
	const kept = bound(0, Math.min(n, most), k => g.measureText("…" + text.slice(n - k - 1)).width <= width);
	return kept > 1 ? "…" + text.slice(n - kept) : "";
}
