// Formats of times, names and colors.
const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const showCount = n => n.toLocaleString("en");
const plural = (n, one) => showCount(n) + " " + (n === 1 ? one : one + "s");
const inTicks = meta.unit !== "ns";

// showTime formats a duration with four digits.
function showTime(v) {
	if (inTicks) return showCount(Math.round(v)) + " ticks";
	if (v >= 1e12) return showCount(Math.round(v / 1e9)) + " s";
	for (const [unit, size] of units.slice(0, 3)) {
		if (Math.abs(v) >= size) return (v / size).toPrecision(4) + " " + unit;
	}
	return Math.round(v) + " ns";
}

// showMoment formats a point in time with all its digits, always in the same unit.
function showMoment(v) {
	if (inTicks) return showCount(Math.round(v));
	const [unit, size] = calls.end >= 1e9 ? units[0] : calls.end >= 1e6 ? units[1] : units[2];
	const [whole, part] = (Math.round(v) / size).toFixed(Math.log10(size)).split(".");
	return showCount(Number(whole)) + "." + part.replace(/\d{3}(?=\d)/g, "$&\u2009") + " " + unit;
}

// exactTime formats a time as a user would type it.
function exactTime(v) {
	if (inTicks) return String(Math.round(v));
	const [unit, size] = units.find(([, size]) => Math.abs(v) >= size) || units[3];
	return Number((v / size).toFixed(Math.log10(size))) + (unit === "µs" ? "us" : unit);
}

// parseTime reads a time that a user typed, for example 5us, or returns NaN.
function parseTime(text) {
	const m = /^\s*(\d+\.?\d*|\.\d+)\s*(s|ms|us|µs|ns|ticks|)\s*$/.exec(text);
	if (!m || inTicks && m[2] && m[2] !== "ticks" || !inTicks && m[2] === "ticks") return NaN;
	const scale = {s: 1e9, ms: 1e6, us: 1e3, "µs": 1e3}[m[2]] || 1;
	return Number(m[1]) * scale;
}

// showDate formats the date of an event, or "" if it is unknown.
function showDate(v) {
	if (!meta.epoch) return "";
	const at = BigInt(meta.epoch) + BigInt(Math.round(v)), seconds = Number(at / 1000000000n);
	return new Date(seconds * 1000).toISOString().replace("T", " ").replace(/\.000Z$/, "." + String(at % 1000000000n).padStart(9, "0")) + " UTC";
}

const percent = (v, of) => of > 0 ? (100 * v / of).toFixed(1) + " %" : "";

// showDuration formats the duration of a call, with ≥ if it did not end.
const showDuration = i => (isPartial(calls.ends[i]) ? "≥ " : "") + showTime(calls.duration[i]);
const endings = {
	[tailExit]: "left by a tail call",
	[continued]: "left by the tail call inside it",
	[inferred]: "no exit record: ended with its caller",
	[truncated]: "still open at the end of the trace",
	[abandoned]: "left by an exception or longjmp",
};
const endingOf = i => [calls.ends[i] >= ends && "began before", endings[calls.ends[i] % ends]].filter(Boolean).join(", ");

// element makes an element with properties and children. Text is never markup.
function element(tag, properties, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(properties || {})) {
		if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
		else if (name === "class") e.className = value;
		else e.setAttribute(name, value);
	}
	e.append(...children);
	return e;
}
const $ = id => document.getElementById(id);
const button = (text, title, press) => element("button", {type: "button", title, onclick: press}, text);

const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => state.theme ? state.theme === "dark" : darkScheme.matches;

// cssColor returns a color of the style sheet.
const cssColor = name => getComputedStyle(document.documentElement).getPropertyValue(name);

// hex converts a color from OKLCH, where colors of equal lightness look equally bright.
function hex(lightness, chroma, hue) {
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

const palettes = {};

// functionColor depends only on the name, so a function has the same color in all pages.
function functionColor(f) {
	const palette = palettes[isDark()] ||= [];
	if (!palette[f]) {
		let h = 2166136261;
		const name = shortName(f);
		for (let k = 0; k < name.length; k++) h = Math.imul(h ^ name.charCodeAt(k), 16777619);
		h = Math.imul(h ^ h >>> 15, 0x2c1b3c6d);
		h = (h ^ h >>> 13) >>> 0;
		const vary = (h >>> 9) % 8 / 7;
		palette[f] = isDark() ? hex(0.44 + 0.08 * vary, 0.09, h % 360) : hex(0.80 + 0.07 * vary, 0.095, h % 360);
	}
	return palette[f];
}

// fitted cuts a text to a width of the canvas.
function fitted(g, text, width) {
	if (width < 12) return "";
	const most = Math.ceil(width / 3);
	if (text.length <= most && g.measureText(text).width <= width) return text;
	const n = bound(0, Math.min(text.length, most), k => g.measureText(text.slice(0, k + 1) + "…").width <= width);
	return n > 1 ? text.slice(0, n) + "…" : "";
}

// sizeCanvas sizes a canvas to the pixels of the screen, and returns its context.
function sizeCanvas(canvas) {
	const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
	const w = Math.round(width * scale), h = Math.round(height * scale);
	if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, {width: w, height: h});
	const g = canvas.getContext("2d");
	g.setTransform(scale, 0, 0, scale, 0, 0);
	g.clearRect(0, 0, width, height);
	g.font = "11px system-ui, sans-serif";
	g.textBaseline = "middle";
	return {g, width, height};
}

// showTip shows lines of text next to the pointer, or hides them if there are none.
function showTip(e, title, ...lines) {
	const tip = $("tip");
	tip.hidden = !title;
	if (!title) return;
	const cut = title.length > 600 ? title.slice(0, 600) + "…" : title;
	tip.replaceChildren(element("strong", {}, cut), ...lines.filter(l => l).map(l => element("div", {}, l)));
	const left = e.clientX + 14 + tip.offsetWidth > innerWidth ? e.clientX - tip.offsetWidth - 10 : e.clientX + 14;
	tip.style.left = Math.max(4, left) + "px";
	tip.style.top = Math.max(4, Math.min(e.clientY + 16, innerHeight - tip.offsetHeight - 4)) + "px";
}

const showCallTip = (e, i) => showTip(e, fullName(calls.func[i]),
	`${showDuration(i)}, self ${showTime(calls.self[i])}`, `at ${showMoment(calls.start[i])}`, showDate(calls.start[i]),
	calls.parent[i] >= 0 && "called from " + nameOf(calls.parent[i]), endingOf(i), calls.values.get(i));
