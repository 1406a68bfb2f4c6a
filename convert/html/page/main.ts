// The page's script. The same script is that of its worker.
import {startChosen, startControls, startViews} from "./controls";
import {byID} from "./dom";
import {Engine} from "./engine";
import {plural, showCount} from "./format";
import {columnNames, type Texts} from "./model/decode";
import {Page} from "./page";
import {startTimeline} from "./timeline/hands";
import {startOverview} from "./timeline/overview";
import {Timeline} from "./timeline/timeline";
import {views} from "./views/index";
import {serve} from "./worker";

export interface App { page: Page; timeline: Timeline }

async function start(script: string): Promise<App> {
	const texts = Object.fromEntries(columnNames.map(name => {
		const e = byID(name), text = e.textContent!;
		e.remove();
		return [name, text];
	})) as Texts;
	const engine = new Engine(script), {loaded, calls} = await engine.load(texts), {meta} = loaded;
	const page = new Page(meta, calls, engine, loaded.rank, views.map(v => v.name));
	page.readFragment();
	document.documentElement.className = page.isDark ? "dark" : "light";
	const timeline = new Timeline(page);
	startTimeline(page, timeline);
	startControls(page, timeline);
	startOverview(page, timeline);
	startViews(page, timeline, views);
	startChosen(page);
	byID("summary").textContent = [
		calls.n || meta.left ? `${meta.left ? `the longest ${showCount(calls.n)} of ${plural(calls.n + meta.left, "call")}` : plural(calls.n, "call")} of ${plural(meta.functions.length, "function")} on ${plural(calls.threads.filter(t => t.calls).length, "thread")} in ${page.format.time(calls.length)}` :
			meta.counted ? `no calls: ${showCount(meta.counted)} were only counted; see the functions view` : "no calls: none were recorded or selected",
		...(meta.epoch ? ["from " + page.format.date(0)] : []), ...meta.notes,
	].join("; ");
	page.drawAll();
	page.writeFragment();
	document.body.dataset.ready = String(Math.round(performance.now()));
	return {page, timeline};
}

// app is what tests use.
export let app: Promise<App> | null = null;

if (typeof document === "undefined") serve(self as never);
else {
	app = start(document.currentScript!.textContent!);
	app.catch((error: Error) => { byID("summary").textContent = "The page cannot show the trace: " + error.message + ". It needs a browser from 2023 or later."; });
}
