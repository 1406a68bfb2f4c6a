(() => {
  "use strict";
  const svgNS = "http://www.w3.org/2000/svg";
  const htmlNS = "http://www.w3.org/1999/xhtml";
  const root = document.currentScript?.ownerSVGElement ?? document.documentElement;
  const about = root.querySelector("#about");
  const matched = root.querySelector("#matched");
  const hint = about.textContent;
  // Frames narrower than this, in pixels, show no text.
  const legible = 24;

  // Parents precede their children.
  const frames = [];
  const open = [];
  for (const node of root.querySelectorAll("svg.f")) {
    const depth = Number(node.dataset.d);
    const lines = node.querySelector("title").textContent.split("\n");
    const frame = {
      node, name: lines[0], lines, depth,
      x: parseFloat(node.getAttribute("x")), width: parseFloat(node.getAttribute("width")),
      parent: open[depth - 1] ?? null, children: [], index: frames.length, end: 0,
    };
    open.length = depth;
    open.push(frame);
    frame.parent?.children.push(frame);
    frames.push(frame);
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", lines.join(", "));
    node.setAttribute("tabindex", "-1");
    // Numbers come first, because names can be wider than the window.
    const details = [lines[1], lines[0], ...lines.slice(2)].join(" · ");
    for (const event of ["mouseenter", "focus"]) {
      node.addEventListener(event, () => { about.textContent = details; });
    }
    node.addEventListener("mouseleave", () => { about.textContent = hint; });
    node.addEventListener("click", () => { zoom(frame); select(frame); });
  }
  for (let i = frames.length - 1; i >= 0; i--) {
    const frame = frames[i];
    frame.end = Math.max(frame.end, i + 1);
    if (frame.parent) frame.parent.end = Math.max(frame.parent.end, frame.end);
  }
  if (frames.length === 0) return;

  let zoomed = frames[0];

  function zoom(to) {
    zoomed = to;
    const above = new Set();
    for (let f = to.parent; f; f = f.parent) above.add(f);
    const pixels = root.getBoundingClientRect().width;
    for (const f of frames) {
      const inside = f.index >= to.index && f.index < to.end;
      const shown = inside || above.has(f);
      f.node.style.display = shown ? "" : "none";
      f.node.classList.toggle("above", above.has(f));
      if (!shown) continue;
      const x = inside ? (f.x - to.x) / to.width * 100 : 0;
      const width = inside ? f.width / to.width * 100 : 100;
      f.node.setAttribute("x", x + "%");
      f.node.setAttribute("width", width + "%");
      label(f, width / 100 * pixels);
    }
  }

  function label(f, pixels) {
    let text = f.node.querySelector("text");
    if (pixels < legible) {
      text?.remove();
    } else if (!text) {
      text = document.createElementNS(svgNS, "text");
      text.setAttribute("x", "4");
      text.setAttribute("y", "13");
      text.textContent = f.name;
      f.node.append(text);
    }
  }

  // Only one frame is in the tab order. Arrow keys move from there.
  let selected = frames[0];
  function select(frame) {
    selected.node.setAttribute("tabindex", "-1");
    selected = frame;
    frame.node.setAttribute("tabindex", "0");
    frame.node.focus();
  }
  frames[0].node.setAttribute("tabindex", "0");

  const visible = (f) => f.node.style.display !== "none";
  function beside(frame, step) {
    const row = frames.filter((f) => f.depth === frame.depth && visible(f));
    return row[row.indexOf(frame) + step];
  }

  root.addEventListener("keydown", (event) => {
    if (event.target === input || event.ctrlKey || event.altKey || event.metaKey) return;
    let to;
    switch (event.key) {
      case "ArrowUp": to = selected.parent; break;
      case "ArrowDown":
        to = selected.children.filter(visible).sort((a, b) => b.width - a.width)[0];
        break;
      case "ArrowLeft": to = beside(selected, -1); break;
      case "ArrowRight": to = beside(selected, 1); break;
      case "Enter": case " ": zoom(selected); break;
      case "Escape": zoom(frames[0]); input.value = ""; search(); break;
      case "/": input.focus(); break;
      default: return;
    }
    event.preventDefault();
    if (to) select(to);
  });

  const box = document.createElementNS(svgNS, "foreignObject");
  for (const [k, v] of [["y", 6], ["width", 260], ["height", 28]]) box.setAttribute(k, v);
  const input = document.createElementNS(htmlNS, "input");
  input.setAttribute("type", "search");
  input.setAttribute("placeholder", "search: text or regexp ( / )");
  input.setAttribute("aria-label", "search functions by text or regular expression");
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { input.value = ""; search(); }
    if (event.key === "Escape" || event.key === "Enter") selected.node.focus();
  });
  box.append(input);
  root.append(box);

  function pattern(text) {
    try {
      return new RegExp(text, "i");
    } catch {
      return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
    }
  }

  function search() {
    const wanted = input.value === "" ? null : pattern(input.value);
    let share = 0, count = 0, counted = 0;
    for (const f of frames) {
      const hit = wanted !== null && wanted.test(f.name);
      f.node.classList.toggle("hit", hit);
      f.node.classList.toggle("miss", wanted !== null && !hit);
      if (!hit) continue;
      count++;
      // A match already includes the frames inside it.
      if (f.index >= counted) {
        share += f.width;
        counted = f.end;
      }
    }
    matched.textContent = wanted === null ? "" :
      `${count === 1 ? "1 frame matches" : count + " frames match"}, ${Math.min(share, 100).toFixed(2)}% of all`;
  }

  function fit() {
    // The root of a document is as wide as the window without scroll bars.
    root.setAttribute("width", Math.max(400, root.parentNode === document ? root.clientWidth :
      root.parentNode.clientWidth));
    box.setAttribute("x", root.getBoundingClientRect().width - 270);
    zoom(zoomed);
  }
  window.addEventListener("resize", fit);
  fit();
})();
