// What a view below the timeline is. Views are listed in views/index.ts.
import type {Page} from "./page";
import type {Timeline} from "./timeline/timeline";

export interface View {
	name: string; // in the address
	title: string; // of its tab
	// unavailable reports whether a trace has nothing to show in this view.
	unavailable?(page: Page): boolean;
	// start fills the panel, and returns a function that draws the state. That runs only while the view is shown.
	start(page: Page, panel: HTMLElement, timeline: Timeline): () => void;
}
