// Elements of the document.

export function byID<T extends HTMLElement = HTMLElement>(id: string): T {
	const found = document.getElementById(id);
	if (!found) throw new Error("no element " + id);
	return found as T;
}

type Property = string | number | boolean | ((e: never) => void);

// element makes an element with properties and children. Text is never markup.
export function element<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Record<string, Property> = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(properties)) {
		if (typeof value === "function") e.addEventListener(name.slice(2), value as EventListener);
		else if (name === "class") e.className = String(value);
		else e.setAttribute(name, String(value));
	}
	e.append(...children);
	return e;
}

export const button = (text: string, title: string, press: (e: MouseEvent) => void): HTMLButtonElement =>
	element("button", {type: "button", title, onclick: press}, text);

// name shows the name of a function or a thread. If there is no room, its beginning is cut off, so that the
// function's own name stays.
export const name = (text: string): HTMLElement => element("span", {class: "cut"}, element("bdi", {dir: "ltr"}, text));

// tip shows lines of text next to the pointer, or hides them if there is no title.
export function tip(e: MouseEvent, title?: string, ...lines: (string | false | undefined)[]): void {
	const box = byID("tip");
	box.hidden = !title;
	if (!title) return;
	const cut = title.length > 600 ? title.slice(0, 600) + "…" : title;
	box.replaceChildren(element("strong", {}, cut), ...lines.filter(l => l).map(l => element("div", {}, l as string)));
	const left = e.clientX + 14 + box.offsetWidth > innerWidth ? e.clientX - box.offsetWidth - 10 : e.clientX + 14;
	box.style.left = Math.max(4, left) + "px";
	// It is below the pointer, or above it, and never on the row that it describes.
	const below = e.clientY + 18, fits = below + box.offsetHeight <= innerHeight - 4;
	box.style.top = Math.max(4, fits ? below : e.clientY - box.offsetHeight - 18) + "px";
}
