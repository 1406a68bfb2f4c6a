const tabs = ["calls", "functions", "flame", "tree", "function", "events"];

function showState() {
	for (const name of tabs) {
		const chosen = name === state.tab;
		$(name).hidden = !chosen;
		$("tab-" + name).setAttribute("aria-selected", chosen);
		$("tab-" + name).tabIndex = chosen ? 0 : -1;
	}
	document.documentElement.className = state.theme;
	const n = isFiltered() ? filtered().length : calls.n;
	$("range").textContent = `${showCount(n)} of ${showCount(calls.n)} calls` +
		(state.selection ? `, in ${showTime(state.selection[1] - state.selection[0])} from ${showTime(state.selection[0])}` : "");
	$("clear").hidden = !isFiltered();
}

function fillInputs() {
	for (const name of ["query", "min", "max", "thread"]) $(name).value = state[name];
}

function startInputs() {
	meta.threads.forEach((t, index) => {
		t.title = t.name;
		if (t.calls) $("thread").append(element("option", {value: index}, `${t.name} (${showCount(t.calls)})`));
	});
	for (const name of ["query", "min", "max", "thread"]) {
		$(name).addEventListener("input", () => change({[name]: $(name).value}));
	}
	$("filter").addEventListener("submit", e => {
		e.preventDefault();
		step(1);
	});
	$("clear").addEventListener("click", () => {
		change({query: "", min: "", max: "", thread: "", selection: null});
		fillInputs();
	});
	for (const name of tabs) $("tab-" + name).addEventListener("click", () => change({tab: name}));
	document.querySelector("nav").addEventListener("keydown", e => {
		const by = {ArrowRight: 1, ArrowLeft: -1}[e.key];
		if (!by) return;
		const next = tabs[(tabs.indexOf(state.tab) + by + tabs.length) % tabs.length];
		change({tab: next});
		$("tab-" + next).focus();
	});
	$("tab-events").hidden = !meta.events.length;
	$("theme").addEventListener("click", () => change({theme: isDark() ? "light" : "dark"}));
	$("help-button").addEventListener("click", () => $("help").showModal());
	const splitter = $("splitter"), height = px => {
		$("timeline").style.height = Math.max(60, Math.min(px, innerHeight - 200)) + "px";
	};
	splitter.addEventListener("pointerdown", e => splitter.setPointerCapture(e.pointerId));
	splitter.addEventListener("pointermove", e => {
		if (splitter.hasPointerCapture(e.pointerId)) height(e.clientY - $("timeline").getBoundingClientRect().top);
	});
	splitter.addEventListener("keydown", e => {
		const by = {ArrowUp: -20, ArrowDown: 20}[e.key];
		if (by) height($("timeline").clientHeight + by);
	});
	addEventListener("keydown", e => {
		if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
		if (e.key === "Escape") change({call: -1, selection: null});
		if (["INPUT", "SELECT"].includes(e.target.tagName)) return;
		const keys = {
			w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => move(-0.2), d: () => move(0.2), f: fit,
			n: () => step(1), N: () => step(-1), "?": () => $("help").showModal(),
			"/": () => { e.preventDefault(); $("query").focus(); },
		};
		if (keys[e.key]) keys[e.key]();
	});
	addEventListener("hashchange", () => {
		readFragment();
		fillInputs();
		change({});
	});
}

async function start() {
	await loadCalls();
	startInputs();
	startTimeline();
	startCalls();
	startFunctions();
	startFlame();
	startTree();
	startFunction();
	startEvents();
	views.push(showState);
	readFragment();
	fillInputs();
	$("summary").textContent = [
		`${showCount(calls.n)} calls of ${showCount(meta.functions.length)} functions on ${meta.threads.filter(t => t.calls).length} threads in ${showTime(calls.end)}`,
		...meta.notes,
	].join("; ");
	change({});
	document.body.dataset.ready = Math.round(performance.now());
}

start().catch(error => {
	$("summary").textContent = "The page cannot show the trace: " + error.message + ". It needs a browser of 2023 or later.";
	throw error;
});
