// A plotly figure in a notebook. The kernel replaces its contents in place; the browser says where the reader looks.
//
// Times are seconds since the start of the trace. Each message "look" says which view asks and has a number. The figure that
// answers it repeats both, so that an answer to an older question never moves the figure back under the reader's hands.

const PATIENCE_MS = 10_000; // the kernel hears a question at once, unless a cell keeps it busy
const DOUBLE_CLICK_MS = 350; // a little longer than plotly waits for the second click

const KEYS = {
  w: ["zoom", 0.7], ArrowUp: ["zoom", 0.7], s: ["zoom", 1 / 0.7], ArrowDown: ["zoom", 1 / 0.7],
  a: ["pan", -0.2], ArrowLeft: ["pan", -0.2], d: ["pan", 0.2], ArrowRight: ["pan", 0.2],
  0: ["say", "whole"], Home: ["say", "whole"], Backspace: ["say", "back"],
  ".": ["say", "next"], ",": ["say", "previous"],
};

/** Return the plotting library. A page has it once, however many figures it shows; the kernel sends it compressed. */
function library(model) {
  globalThis.wastedcoresPlotly ??= new Promise((resolve, reject) => {
    const failed = (why) => {
      globalThis.wastedcoresPlotly = undefined;
      reject(new Error(why));
    };
    const timer = setTimeout(() => failed("no kernel answered"), 60_000);
    const take = async (message, buffers) => {
      if (message.kind !== "library") return;
      clearTimeout(timer);
      model.off("msg:custom", take);
      const unpacked = new Blob([buffers[0]]).stream().pipeThrough(new DecompressionStream("gzip"));
      const source = await new Response(unpacked).text();
      // the library looks for the loaders of other module systems, and a notebook may have one
      const parts = ["const module = {exports: {}}, exports = module.exports, define = undefined;\n", source, "\nexport default module.exports;"];
      const address = URL.createObjectURL(new Blob(parts, { type: "text/javascript" }));
      import(address).then((m) => resolve(m.default), (e) => failed(String(e))).finally(() => URL.revokeObjectURL(address));
    };
    model.on("msg:custom", take);
    model.send({ kind: "library" });
  });
  return globalThis.wastedcoresPlotly;
}

/** Return a copy of what the kernel sent, with binary arrays as plotly reads them and with texts for their codes. */
function unpacked(value) {
  if (Array.isArray(value)) return value.map(unpacked);
  if (value === null || typeof value !== "object" || value instanceof DataView) return value;
  if (value.bdata instanceof DataView) {
    const { buffer, byteOffset, byteLength } = value.bdata;
    return { ...value, bdata: buffer.slice(byteOffset, byteOffset + byteLength) };
  }
  if (value.codes instanceof DataView) {
    const { buffer, byteOffset, byteLength } = value.codes;
    const codes = new Uint16Array(buffer.slice(byteOffset, byteOffset + byteLength));
    return Array.from({ length: value.rows }, (_, row) =>
      Array.from(codes.subarray(row * value.cols, (row + 1) * value.cols), (code) => value.names[code]));
  }
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, unpacked(part)]));
}

/** Return a copy with each colour replaced by its counterpart, as reports/figure.js does it on a page. */
function recoloured(value, counterparts) {
  if (value === "white") return JSON.parse(counterparts['"white"']);
  if (typeof value === "string") return value.replace(/(#|%23)[0-9a-f]{6}|rgba?\(\d+,\d+,\d+/g, (c) => counterparts[c] ?? c);
  if (Array.isArray(value)) return value.map((part) => recoloured(part, counterparts));
  if (value === null || typeof value !== "object" || value instanceof ArrayBuffer) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, recoloured(part, counterparts)]));
}

class Live {
  constructor(model, el, Plotly) {
    Object.assign(this, { model, Plotly, id: crypto.randomUUID(), sent: 0, waiting: false, next: null, range: null });
    this.root = document.createElement("div");
    this.root.className = "wc-live";
    this.root.tabIndex = 0;
    // without this, JupyterLab takes the letters for its own shortcuts, of which "d d" deletes the cell
    this.root.dataset.lmSuppressShortcuts = "true";
    // in a narrow cell the sheet keeps the width for which figures are laid out, and the root scrolls
    this.sheet = document.createElement("div");
    this.sheet.className = "wc-sheet";
    this.map = document.createElement("canvas");
    this.plot = document.createElement("div");
    this.mark = document.createElement("div");
    this.mark.className = "wc-mark";
    this.sheet.append(this.map, this.plot, this.mark);
    this.note = document.createElement("p");
    this.note.className = "wc-note";
    this.root.append(this.note, this.sheet);
    el.append(this.root);
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.root.addEventListener("mousemove", (event) => (this.mouse = event.clientX));
    this.root.addEventListener("mousedown", (event) => this.press(event), { capture: true });
    this.map.addEventListener("mousedown", (event) => this.pressMap(event));
    this.redraw = () => this.draw();
    this.remap = () => this.drawMap();
    this.heard = ({ kind }) => kind === "heard" && this.answered();
    model.on("msg:custom", this.heard);
    model.on("change:figure", this.redraw);
    model.on("change:overview", this.remap);
    // a widget is laid out before it is shown; it is drawn when it has a width, and again when that changes
    this.sizes = new ResizeObserver(() => {
      if (this.root.clientWidth && this.sheet.clientWidth !== this.width) this.draw();
    });
    this.sizes.observe(this.sheet);
    // JupyterLab says on the body which theme its reader chose; for a moment nothing has a width then
    this.themes = new MutationObserver(() => {
      this.width = null;
      requestAnimationFrame(this.redraw);
    });
    this.themes.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
  }

  close() {
    this.model.off("change:figure", this.redraw);
    this.model.off("change:overview", this.remap);
    this.model.off("msg:custom", this.heard);
    this.sizes.disconnect();
    this.themes.disconnect();
    clearTimeout(this.patience);
    this.Plotly.purge(this.plot);
  }

  /** Return colours, or a value that contains some, as the theme of the notebook wants them. */
  themed(value) {
    return document.body.dataset.jpThemeLight === "false" ? recoloured(value, this.model.get("dark")) : value;
  }

  answered() {
    clearTimeout(this.patience);
    this.note.textContent = "";
  }

  /** Send a question, and say so if nobody hears it: a kernel that was restarted knows nothing of this figure. */
  send(message) {
    this.model.send(message);
    clearTimeout(this.patience);
    this.patience = setTimeout(() => {
      this.note.textContent = "No answer for 10 seconds. If the kernel was restarted, run the cell again.";
    }, PATIENCE_MS);
  }

  get view() {
    return this.model.get("figure").view ?? {};
  }

  async draw() {
    const width = this.root.clientWidth && this.sheet.clientWidth;
    const { figure, answers } = this.model.get("figure") ?? {};
    this.plot.style.display = figure ? "block" : "none";
    if (!width || !figure) return;
    if (this.waiting && answers?.by === this.id && answers.number === this.sent) this.waiting = false;
    if (this.waiting) return;
    if (this.next) return void this.ask();
    this.width = width;
    this.answered();
    this.root.classList.toggle("wc-dark", document.body.dataset.jpThemeLight === "false");
    const { data, layout, config } = this.themed(unpacked(figure));
    this.quiet = true;
    await this.Plotly.react(this.plot, data, { ...layout, width }, { ...config, responsive: false, doubleClick: false, showTips: false });
    this.quiet = false;
    this.range = this.view.window ?? null;
    this.listen();
    this.drawMap();
    this.root.dataset.count = Number(this.root.dataset.count ?? 0) + 1;
  }

  listen() {
    if (this.listening) return;
    this.listening = true;
    this.plot.on("plotly_relayout", (change) => {
      const key = Object.keys(change).find((k) => /^xaxis\d*\.range/.test(k));
      if (this.quiet || !key || !this.view.scale) return;
      const range = this.plot.layout[key.split(".")[0]].range.map((x) => Number(x) * this.view.scale);
      this.look(...range);
    });
    // a double click comes with two clicks, before and after it, which then ask nothing
    this.plot.on("plotly_doubleclick", () => {
      clearTimeout(this.clicked);
      this.doubled = Date.now();
      if (this.view.scale) this.say("whole");
      return false;
    });
    this.plot.on("plotly_click", ({ points: [point], event }) => {
      if (!this.view.scale || event?.shiftKey || Date.now() - this.doubled < DOUBLE_CLICK_MS) return;
      const heat = this.plot._fullLayout.xaxis;
      const at = heat.p2d(event.clientX - this.left());
      const asked = { kind: "click", at: at * this.view.scale, row: String(point.y), curve: point.curveNumber };
      clearTimeout(this.clicked);
      this.clicked = setTimeout(() => this.send(asked), DOUBLE_CLICK_MS);
    });
  }

  /** Return the horizontal place of the axes' left end in the window. */
  left() {
    return this.plot.getBoundingClientRect().left + this.plot._fullLayout.xaxis._offset;
  }

  say(kind) {
    this.send({ kind });
  }

  /** Show a window at once with the pixels that are there, and ask the kernel for better ones. */
  look(lo, hi) {
    const [first, last] = this.view.bounds;
    const wide = Math.min(hi - lo, last - first);
    lo = Math.min(Math.max(lo, first), last - wide);
    this.range = [lo, lo + wide];
    this.next = this.range;
    this.drawMap();
    if (!this.waiting) this.ask();
  }

  ask() {
    const [lo, hi] = this.next;
    this.next = null;
    this.waiting = true;
    this.send({ kind: "look", lo, hi, by: this.id, number: ++this.sent });
  }

  async preview() {
    this.quiet = true;
    await this.Plotly.relayout(this.plot, { "xaxis.range": this.range.map((t) => t / this.view.scale) });
    this.quiet = false;
  }

  zoom(factor, at) {
    const [lo, hi] = this.range;
    const middle = at ?? (lo + hi) / 2;
    const wide = Math.max((hi - lo) * factor, 1e-6);
    const from = middle - (wide * (middle - lo)) / (hi - lo);
    this.look(from, from + wide);
    this.preview();
  }

  /** Return the time under the mouse, if it is over the axes. */
  under() {
    const axis = this.plot._fullLayout?.xaxis;
    const x = this.mouse - this.left();
    return axis && x >= 0 && x <= axis._length ? axis.p2d(x) * this.view.scale : undefined;
  }

  key(event) {
    const [what, by] = KEYS[event.key] ?? [];
    if (!what || !this.view.scale || !this.range || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const [lo, hi] = this.range;
    if (what === "say") this.say(by);
    else if (what === "zoom") this.zoom(by, this.under());
    else {
      this.look(lo + by * (hi - lo), hi + by * (hi - lo));
      this.preview();
    }
  }

  wheel(event) {
    if (!event.ctrlKey || !this.view.scale || !this.range) return;
    event.preventDefault();
    this.mouse = event.clientX;
    this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.under());
  }

  /** With shift, dragging over the heat map selects a span of time on some CPUs. */
  press(event) {
    this.root.focus({ preventScroll: true });
    if (!event.shiftKey || !this.view.scale || !event.target.closest(".nsewdrag, .wc-map")) return;
    event.stopPropagation();
    event.preventDefault();
    const { xaxis, yaxis } = this.plot._fullLayout;
    const box = this.sheet.getBoundingClientRect();
    const move = (now) => {
      const [x0, x1] = [event.clientX, now.clientX].sort((a, b) => a - b);
      const [y0, y1] = [event.clientY, now.clientY].sort((a, b) => a - b);
      Object.assign(this.mark.style, { display: "block", left: `${x0 - box.left}px`, width: `${x1 - x0}px`, top: `${y0 - box.top}px`, height: `${y1 - y0}px` });
      return [x0, x1, y0, y1];
    };
    drag(move, (now) => {
      const [x0, x1, y0, y1] = move(now);
      this.mark.style.display = "none";
      const top = this.plot.getBoundingClientRect().top + yaxis._offset;
      const row = (y) => Math.round(yaxis.p2l(y - top));
      this.send({
        kind: "select", lo: xaxis.p2d(x0 - this.left()) * this.view.scale, hi: xaxis.p2d(x1 - this.left()) * this.view.scale,
        rows: [row(y0), row(y1)].sort((a, b) => a - b),
      });
    });
  }

  /** The map shows the whole trace: drag its window to move it, press beside the window to go there, drag there to choose. */
  pressMap(event) {
    if (!this.view.scale || !this.range) return;
    event.preventDefault();
    const [first, last] = this.view.bounds;
    const box = this.map.getBoundingClientRect();
    const at = (e) => first + ((e.clientX - box.left) / box.width) * (last - first);
    const [lo, hi] = this.range;
    const begin = at(event);
    const inside = begin >= lo && begin <= hi && hi - lo < 0.98 * (last - first);
    const to = (e) => {
      const now = at(e);
      if (inside) return this.look(lo + now - begin, hi + now - begin);
      if (Math.abs(e.clientX - event.clientX) > 3) return this.look(Math.min(begin, now), Math.max(begin, now));
      if (e.type === "mouseup") this.look(begin - (hi - lo) / 2, begin + (hi - lo) / 2);
    };
    drag(inside ? to : () => {}, to);
  }

  drawMap() {
    const { wasted, persistent } = this.model.get("overview") ?? {};
    this.map.style.display = wasted && this.view.scale ? "block" : "none";
    if (!wasted || !this.view.scale || !this.range) return;
    const height = 34, width = this.sheet.clientWidth, { accent, curve, ink } = this.themed(this.view.colours);
    if (this.map.width !== width) Object.assign(this.map, { className: "wc-map", width, height });
    const g = this.map.getContext("2d");
    g.clearRect(0, 0, width, height);
    const values = new Float32Array(wasted.buffer.slice(wasted.byteOffset, wasted.byteOffset + wasted.byteLength));
    const top = Math.max(1, ...values), step = width / values.length;
    values.forEach((v, i) => {
      g.fillStyle = persistent.getUint8(i) ? accent : curve;
      const x = Math.floor(i * step);
      g.fillRect(x, height - (v / top) * height, Math.ceil((i + 1) * step) - x, (v / top) * height);
    });
    const [first, last] = this.view.bounds;
    const [x0, x1] = this.range.map((t) => ((t - first) / (last - first)) * width);
    g.fillStyle = "rgba(120,130,140,0.28)";
    g.fillRect(0, 0, x0, height);
    g.fillRect(x1, 0, width - x1, height);
    g.strokeStyle = ink;
    g.strokeRect(x0 + 0.5, 0.5, Math.max(x1 - x0 - 1, 2), height - 1);
  }
}

/** Call `move` while the mouse is held down, and `end` when it is released. */
function drag(move, end) {
  const done = (event) => {
    removeEventListener("mousemove", move);
    removeEventListener("mouseup", done);
    end(event);
  };
  addEventListener("mousemove", move);
  addEventListener("mouseup", done);
}

/** Return the model that has the contents of a figure and its messages; see `Contents` in live_figure.py. */
function contents(model) {
  return model.widget_manager.get_model(model.get("contents").slice("IPY_MODEL_".length));
}

async function render({ model, el }) {
  const says = document.createElement("p");
  says.textContent = "loading the plotting library …";
  el.append(says);
  try {
    const figure = await contents(model);
    const live = new Live(figure, el, await library(figure));
    says.remove();
    live.draw();
    return () => live.close();
  } catch (e) {
    says.textContent = `The figure could not be drawn (${e.message}). Run the cell again.`;
  }
}

export default { render };
