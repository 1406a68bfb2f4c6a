const tabs = ["calls", "functions", "flame", "tree", "function", "events"];
const fields = ["query", "min", "max", "thread"];

function showState() {
	document.documentElement.className = isDark() ? "dark" : "light";
	for (const name of tabs) {
		const chosen = name === state.tab;
		$(name).hidden = !chosen;
		$("tab-" + name).setAttribute("aria-selected", chosen);
		$("tab-" + name).tabIndex = chosen ? 0 : -1;
	}
	const wrong = wrongFields();
	for (const name of [...fields, "time"]) $(name).setAttribute("aria-invalid", wrong.some(([field]) => field === name));
	$("range").textContent = wrong.length ? wrong.map(([, text]) => text).join("; ") :
		[isFiltered() ? `${showCount(filtered().length)} of ${showCount(calls.n)} calls` : "", meta.left ? aboutLeft() : ""].filter(text => text).join("; ");
	$("clear").hidden = !isFiltered();
}

// aboutLeft says how many of all calls the page has.
const aboutLeft = () => `${showCount(calls.n)} of all ${showCount(calls.n + meta.left)} calls are in the page`;

// wrongFields returns the fields with invalid contents, each with the reason.
function wrongFields() {
	const wrong = [];
	for (const name of ["query", "thread"]) {
		try {
			expression(state[name]);
		} catch (error) {
			wrong.push([name, error.message.replace(/^Invalid regular expression: /, "")]);
		}
	}
	for (const name of ["min", "max"]) {
		if (state[name].trim() && isNaN(parseTime(state[name]))) wrong.push([name, `${state[name]} is not a time`]);
	}
	if ($("time").value.trim() && !parseRange($("time").value)) wrong.push(["time", "enter a time range, for example 1.2s - 1.25s"]);
	return wrong;
}

// parseRange reads a time range, or returns null if it is invalid.
function parseRange(text) {
	const [a, b] = text.split(/\s*(?:-|–|to)\s*/).map(parseTime);
	return a < b ? [a, b] : null;
}

function fillInputs() {
	for (const name of fields) $(name).value = state[name];
	$("time").value = state.selection ? state.selection.map(exactTime).join(" - ") : "";
}

// showChosen describes the selected call.
function showChosen() {
	const i = state.call;
	$("chosen").hidden = i < 0;
	if (i < 0) return;
	$("chosen-text").replaceChildren(element("strong", {}, element("bdi", {}, nameOf(i).slice(0, 300))),
		` ${showDuration(i)}, self ${showTime(calls.self[i])}, at ${showMoment(calls.start[i])} on `, element("bdi", {}, threadOf(i).name),
		calls.parent[i] >= 0 ? ", called from " : "", element("bdi", {}, calls.parent[i] >= 0 ? nameOf(calls.parent[i]).slice(0, 300) : ""),
		endingOf(i) && "; " + endingOf(i), calls.values.has(i) ? "; " + calls.values.get(i) : "");
	$("chosen-text").title = [fullName(calls.func[i]), showDate(calls.start[i])].join("\n");
}

async function copyLink() {
	writeFragment();
	let text = "copied";
	try {
		await navigator.clipboard.writeText(location.href);
	} catch {
		text = "copy it from the address bar";
	}
	$("link").textContent = text;
	setTimeout(() => { $("link").textContent = "copy link"; }, 2000);
}

function startInputs() {
	for (const t of meta.threads) if (t.calls) $("threads").append(element("option", {value: "^" + escaped(t.name) + "$", label: t.name}));
	for (const name of fields) $(name).addEventListener("input", () => change({[name]: $(name).value}));
	$("time").addEventListener("input", () => change({selection: parseRange($("time").value)}));
	$("filter").addEventListener("submit", e => {
		e.preventDefault();
		step(1);
	});
	$("clear").addEventListener("click", () => {
		change({query: "", min: "", max: "", thread: "", selection: null});
		fillInputs();
	});
	for (const name of tabs) $("tab-" + name).addEventListener("click", () => change({tab: name}));
	$("tabs").addEventListener("keydown", e => {
		const shown = tabs.filter(name => !$("tab-" + name).hidden), at = shown.indexOf(state.tab);
		const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: shown.length - 1}[e.key];
		if (to === undefined) return;
		e.preventDefault();
		const next = shown[(to + shown.length) % shown.length];
		change({tab: next});
		$("tab-" + next).focus();
	});
	$("tab-events").hidden = !meta.events.length;
	$("theme").addEventListener("click", () => change({theme: isDark() ? "light" : "dark"}));
	darkScheme.addEventListener("change", () => change({}));
	$("help-button").addEventListener("click", () => $("help").showModal());
	$("link").addEventListener("click", copyLink);
	$("fit-call").addEventListener("click", () => {
		reveal(state.call);
		choose(state.call, true);
	});
	$("mark-call").addEventListener("click", markCall);
	$("call-function").addEventListener("click", () => pickFunction(state.func));
	startSplitter();
	startKeys();
	addEventListener("hashchange", () => {
		place = null;
		readFragment();
		fillInputs();
		change({});
	});
}

function startSplitter() {
	const splitter = $("splitter"), lanes = $("lanes");
	const height = px => {
		const to = Math.round(Math.max(60, Math.min(px, innerHeight - 220)));
		lanes.style.height = 100 * to / innerHeight + "vh";
		splitter.setAttribute("aria-valuenow", Math.round(100 * to / innerHeight));
	};
	splitter.addEventListener("pointerdown", e => splitter.setPointerCapture(e.pointerId));
	splitter.addEventListener("pointermove", e => {
		if (splitter.hasPointerCapture(e.pointerId)) height(e.clientY - lanes.getBoundingClientRect().top);
	});
	splitter.addEventListener("keydown", e => {
		const by = {ArrowUp: -20, ArrowDown: 20}[e.key];
		if (by) height(lanes.clientHeight + by);
	});
	// A few lanes need little height.
	const most = innerHeight * (innerHeight < 600 ? 0.3 : 0.45);
	height(Math.min(most, timeline.height + axisHeight));
}

function startKeys() {
	const keys = {
		w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => move(-0.2), d: () => move(0.2), f: fit, m: markCall,
		n: () => step(1), N: () => step(-1), "?": () => $("help").showModal(), Backspace: goBack,
		"/": e => {
			e.preventDefault();
			$("query").focus();
		},
		Escape: () => {
			change({call: -1, selection: null});
			fillInputs();
		},
	};
	addEventListener("keydown", e => {
		if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
		if (e.target.tagName === "INPUT") {
			if (e.key === "Escape") e.target.blur();
			return;
		}
		if (Object.hasOwn(keys, e.key)) keys[e.key](e);
	});
}

async function start() {
	await loadCalls();
	layOut();
	startInputs();
	startTimeline();
	startOverview();
	startCalls();
	startFunctions();
	startFlame();
	startTree();
	startFunction();
	startEvents();
	views.unshift(showState);
	views.push(showChosen);
	readFragment();
	fillInputs();
	$("summary").textContent = [
		calls.n || meta.left ? `${meta.left ? `the longest ${showCount(calls.n)} of ${plural(calls.n + meta.left, "call")}` : plural(calls.n, "call")} of ${plural(meta.functions.length, "function")} on ${plural(meta.threads.filter(t => t.calls).length, "thread")} in ${showTime(calls.length)}` :
			meta.counted ? `no calls: ${showCount(meta.counted)} were only counted; see the functions view` : "no calls: none were recorded or selected",
		...(meta.epoch ? ["from " + showDate(0)] : []), ...meta.notes,
	].join("; ");
	for (const view of views) view();
	writeFragment();
	document.body.dataset.ready = Math.round(performance.now());
}

start().catch(error => {
	$("summary").textContent = "The page cannot show the trace: " + error.message + ". It needs a browser from 2023 or later.";
	throw error;
});
