// What all pages share: elements, questions to the server, live views, tables, dialogs, words for numbers.
const meta = (name) => document.querySelector(`meta[name=${name}]`)?.content ?? "";
export const isReadOnly = meta("read-only") === "1";
export const main = document.getElementById("main");
export const query = new URLSearchParams(location.search);

// Elements. Text goes in as text nodes only, so nothing that a message says becomes markup.
function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
// An input is as wide as its placeholder, unless it says its size.
const roomy = (props) => (props?.placeholder?.length > 18 ? { size: props.placeholder.length + 2, ...props } : props);
export const h = (tag, props, ...children) => fill(document.createElement(tag), tag === "input" ? roomy(props) : props, children);
export const s = (tag, props, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
export const clear = (node, ...children) => { node.replaceChildren(); return fill(node, {}, children); };

// Words for numbers and times
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const none = "–";
export const count = (n) => (n === null || n === undefined ? none : whole.format(n));
export const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
export const brief = (n) => (n === null || n === undefined ? none : n < 10000 ? whole.format(Math.round(n)) : short.format(n));
export const perSecond = (n) => (n === null || n === undefined ? none : `${rate(n)} /s`);
export const rate = (n) => (n === null || n === undefined ? none : n === 0 ? "0" : n < 10 ? n.toFixed(1) : brief(n));
export function bytes(n) {
  if (n === null || n === undefined) return none;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at += 1; }
  return `${at ? n.toFixed(1) : n} ${units[at]}`;
}
const two = (n) => String(n).padStart(2, "0");
// Times are the reader's; lists and fields say whose that is.
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "local time";
export function time(ms) {
  if (!ms) return none;
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ` +
    `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}
export function ago(ms) {
  if (!ms) return none;
  const seconds = Math.max(0, (Date.now() - ms) / 1000);
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  }
  return `${Math.floor(seconds)} s ago`;
}
// For how long: the two largest units
export function lasted(seconds) {
  if (seconds === null || seconds === undefined) return none;
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].map(([unit, length], at, all) =>
    [Math.floor((at ? seconds % all[at - 1][1] : seconds) / length), unit]);
  const first = parts.findIndex(([n]) => n > 0);
  return first < 0 ? "0 s" : parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => `${count(n)} ${unit}`).join(" ");
}
export const when = (ms) => h("time", { title: `${time(ms)} ${zone}` }, ago(ms));

// Questions and orders
export class Trouble extends Error {
  constructor(error, next) { super(error); this.next = next; }
}
const clean = (params) =>
  new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v !== "" && v !== null && v !== undefined));
export const link = (path, params) => { const text = clean(params).toString(); return text ? `${path}?${text}` : path; };

async function answer(response) {
  if (response.status === 401) {
    location.assign(link("/login", { next: location.pathname + location.search }));
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Trouble(body.error ?? `the dashboard answered ${response.status}`, body.next ?? "Try again.");
  return body;
}
const asked = (promise) => promise.catch(() => {
  throw new Trouble("the dashboard does not answer", "Is `pyromq dashboard` still running? The page goes on when it does.");
});
export const get = async (path, params) => answer(await asked(fetch(link(path, params))));
export const post = async (path, order) => answer(await asked(fetch(path, {
  method: "POST", body: JSON.stringify(order),
  headers: { "Content-Type": "application/json", "X-CSRF-Token": meta("csrf") },
})));

// Live views: the server sends one whenever it has changed; a page that is not seen gets none.
const lamp = document.getElementById("live");
function shine(state, words) {
  if (!lamp) return;
  lamp.dataset.state = state;
  lamp.querySelector("span").textContent = words;
}
// The first page has its own words for a cluster that does not answer; the others show old numbers, and say so.
const outages = h("div");
function outage(view, why) {
  if (view === "overview") return;
  if (why && !outages.isConnected) main.prepend(outages);
  clear(outages, why && trouble({ message: why, next: "What is shown is what was known before; it goes on by itself." }));
}
export function live(view, params, show, fail) {
  let source = null;
  let now = params;
  const open = () => {
    source?.close();
    if (document.hidden) return;
    source = new EventSource(link(`/api/live/${view}`, now));
    source.addEventListener("view", (event) => {
      const shown = JSON.parse(event.data);
      shine("on", "live");
      main.classList.remove("absent");
      outage(view, shown.outage);
      show(shown);
      drawn();
    });
    source.addEventListener("trouble", (event) => {
      const told = JSON.parse(event.data);
      shine("on", "live");
      main.classList.add("absent");
      fail?.(new Trouble(told.error, told.next));
    });
    source.onerror = () => {
      shine("off", "reconnecting");
      if (source.readyState === EventSource.CLOSED) {
        get(`/api/${view}`, now).catch((error) => fail?.(error));
        setTimeout(open, 3000);
      }
    };
  };
  document.addEventListener("visibilitychange", open);
  open();
  return { change(next) { now = next; open(); } };
}
// Who comes back to a page comes back to its place: what is there is drawn too late for the browser to find it.
const PLACE = `place ${location.href}`;
let isDrawn = false;
export function drawn() {
  if (isDrawn) return;
  isDrawn = true;
  const isBack = ["back_forward", "reload"].includes(performance.getEntriesByType("navigation")[0]?.type);
  const place = isBack && sessionStorage.getItem(PLACE);
  if (place) scrollTo(0, Number(place));
}
addEventListener("pagehide", () => { try { sessionStorage.setItem(`place ${location.href}`, String(scrollY)); } catch { /* then it begins at the top */ } });
export const still = () => shine("still", "on demand");

// Errors say the cause and the next step
export const trouble = (error) =>
  h("div", { class: "trouble", role: "alert" }, h("strong", {}, error.message), h("p", {}, error.next ?? "Load the page again."));
// Brokers whose part of what a page shows is not there
export const missing = (brokers) => brokers.length > 0 && trouble({ message: `${brokers.join(", ")} ${brokers.length === 1 ? "has" : "have"} no master that answers: what is there is not counted here`,
  next: "The first page says what is known of it; numbers are whole again when it is back." });
export function toast(text, kind = "good", next = null) {
  const node = h("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : null }, h("span", {}, text), next && h("p", {}, next),
    h("button", { type: "button", class: "link", "aria-label": "Take this message away", onclick: () => node.remove() }, "✕"));
  document.getElementById("toasts").append(node);
  // What went wrong stays until somebody has read it.
  if (kind !== "bad") setTimeout(() => node.remove(), 6000);
}

// Milliseconds after the last move of pointer or focus for which rows keep their order
const HELD_MS = 10_000;
// Tables whose rows keep the focus in them while their numbers move. One that `holds` moves no row, and takes none away, from under a
// pointer or a focus that is in it: only numbers change until it has left.
export class Table {
  constructor(columns, { key, empty, caption, holds = false }) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    this.movedAt = 0;
    this.body = h("tbody");
    this.empty = h("p", { class: "empty", hidden: true }, empty);
    const heads = columns.map((one) => h("th", { scope: "col", class: one.kind }, one.title));
    this.node = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, heads)), this.body), this.empty);
    if (!holds) return;
    for (const kind of ["pointermove", "focusin", "keydown"]) this.body.addEventListener(kind, () => { this.movedAt = Date.now(); });
    for (const kind of ["pointerleave", "focusout"]) this.body.addEventListener(kind, () => setTimeout(() => this.#settle()));
  }
  say(empty) { if (this.empty.textContent !== empty) this.empty.textContent = empty; }
  get isHeld() {
    return Date.now() - this.movedAt < HELD_MS && (this.body.matches(":hover") || this.body.contains(document.activeElement));
  }
  // What is shown is another list now: nothing of the old one is to be held.
  free() { this.movedAt = 0; }
  #settle() { if (this.waiting && !this.isHeld) this.update(this.waiting); }
  update(rows) {
    const isHeld = this.isHeld;
    this.waiting = isHeld ? rows : null;
    const seen = new Map();
    const ordered = rows.map((row) => {
      const key = this.key(row);
      let line = this.rows.get(key);
      if (!line) {
        line = { node: h("tr"), cells: this.columns.map((one) => h("td", { class: one.kind })), said: [] };
        line.node.append(...line.cells);
      }
      this.columns.forEach((column, at) => this.#put(line, column, at, row));
      seen.set(key, line);
      return line.node;
    });
    const now = [...this.body.children];
    if (isHeld && now.length) {
      // Those that went stay until the pointer leaves; those that came wait for it.
      this.rows.forEach((line, key) => { line.node.classList.toggle("left", !seen.has(key)); });
      return;
    }
    ordered.forEach((node) => node.classList.remove("left"));
    this.rows = seen;
    if (now.length !== ordered.length || now.some((node, at) => node !== ordered[at])) this.body.replaceChildren(...ordered);
    this.empty.hidden = rows.length > 0;
  }
  #put(line, column, at, row) {
    const cell = line.cells[at];
    const sign = column.sign ? String(column.sign(row)) : null;
    if (sign !== null && line.said[at] === sign) return;
    const value = column.cell(row);
    if (Array.isArray(value)) clear(cell, ...value);
    else if (value instanceof Node) cell.replaceChildren(value);
    else if (cell.textContent !== String(value)) cell.textContent = String(value);
    if (column.kind === "line" || column.kind === "keys") cell.title = cell.textContent;
    line.said[at] = sign;
  }
}

export function pager(go) {
  const back = h("button", { type: "button", onclick: () => go(-1) }, "Back");
  const next = h("button", { type: "button", onclick: () => go(1) }, "Next");
  const words = h("span", { class: "place" });
  const node = h("div", { class: "pager" }, back, words, next);
  return { node, update(shown) {
    const first = shown.total ? (shown.page - 1) * shown.size + 1 : 0;
    words.textContent = `${count(first)}–${count(first ? first + shown.rows.length - 1 : 0)} of ${count(shown.total)}`;
    back.disabled = shown.page <= 1;
    next.disabled = shown.page >= shown.pages;
    node.hidden = shown.pages <= 1;
  } };
}

// A list page: its choices are in the address, so that a link shows the same
export function choices(defaults, onChange) {
  const state = { ...defaults };
  for (const name of Object.keys(defaults)) if (query.has(name)) state[name] = query.get(name);
  const set = (changes) => {
    Object.assign(state, changes);
    const said = Object.fromEntries(Object.entries(state).filter(([name, value]) => String(value) !== String(defaults[name])));
    history.replaceState(null, "", link(location.pathname, said));
    onChange(state);
  };
  return { state, set };
}
export function field(label, input, hint) {
  if (!input.id) input.id = `f${Math.random().toString(36).slice(2)}`;
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, hint && h("small", {}, hint));
}
export const select = (options, value, props = {}) =>
  h("select", props, Object.entries(options).map(([key, text]) => h("option", { value: key, selected: key === String(value) }, text)));
export function later(call, ms = 200) {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => call(...given), ms); };
}

// Dialogs: what they ask for goes to the server when they are confirmed; errors stay in them
export function dialog(title, content, buttons = [], { wide = false, away = "Close" } = {}) {
  const said = h("div", { class: "said" });
  const node = h("dialog", { class: wide ? "wide" : null, "aria-label": title });
  const form = h("form", { method: "dialog", onsubmit: (event) => event.preventDefault() },
    h("h2", {}, title), h("div", { class: "content" }, content), said,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => node.close() }, away), buttons));
  node.append(form);
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return { node, form, say: (...children) => clear(said, ...children), close: () => node.close() };
}
export function act(label, call, { kind = "primary", say, can = () => true } = {}) {
  const button = h("button", { type: kind === "primary" ? "submit" : "button", class: kind, onclick: async (event) => {
    event.preventDefault();
    const form = button.closest("form");
    if (form && kind === "primary" && !form.reportValidity()) return;
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    try { await call(); } catch (error) {
      const place = say?.() ?? form?.querySelector(".said");
      if (place) clear(place, trouble(error)); else toast(error.message, "bad", error.next);
    } finally { button.disabled = !can(); button.removeAttribute("aria-busy"); }
  } }, label);
  return button;
}
// What an order takes away or cannot take back, named; and the one question before such an order. With `typed` that name is to be typed
// first, for what nothing brings back. `call` returns what each server said; while one refused, the question stays open.
export const losses = (lost, heading = "This cannot be taken back") => h("div", { class: "lost" }, h("b", {}, heading),
  h("ul", { "aria-label": "What is lost" }, lost.filter(Boolean).map((one) => h("li", {}, one))));
export function confirmed(title, { lost, verb, heading, typed = null, more = null }, call) {
  const word = typed && h("input", { autocomplete: "off", required: true, spellcheck: "false" });
  const can = () => !typed || word.value === typed;
  const button = act(verb, async () => {
    const results = await call();
    if (Array.isArray(results) && results.some((one) => one.failure)) { shown.say(told(results)); return; }
    shown.close();
  }, { kind: "danger", can });
  button.disabled = !can();
  word?.addEventListener("input", () => { button.disabled = !can(); });
  const shown = dialog(title, [losses(lost, heading), more, word && field("Type its name to be sure", word)], [button], { away: "Cancel" });
  word?.focus();
}
// What each server said of an order
export const told = (results) => h("ul", { class: "told" }, results.map((one) =>
  h("li", { class: one.failure ? "bad" : "good" }, h("b", {}, one.who), one.failure ? `: ${one.failure}` : ": done")));
export const change = (node) => (isReadOnly ? null : node);
export const head = (title, ...actions) => {
  document.title = `${title} · PyroMQ`;
  return h("div", { class: "head" }, h("h1", {}, title), h("div", { class: "actions" }, actions));
};
// Where a page of one thing stands: the list that it is of
export const withZone = (title) => [title, " ", h("span", { class: "zone" }, zone)];
export const crumb = (label, href) => h("a", { class: "crumb", href }, `‹ ${label}`);
export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", {}, title), children);
document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
document.getElementById("logout")?.addEventListener("click", async () => {
  await post("/api/logout", {}).catch(() => {});
  location.assign("/login");
});
