// A message's body: as text, as JSON, as hexadecimal numbers.
import { bytes, clear, h } from "./core.js";

const COLOURED_MAX = 9000;
function hex(base64) {
  const raw = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const lines = [];
  for (let at = 0; at < raw.length; at += 16) {
    const part = [...raw.slice(at, at + 16)];
    const numbers = part.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((one) => (one >= 0x20 && one < 0x7f ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${numbers.padEnd(47)}  |${text}|`);
  }
  return lines.join("\n");
}
// Keys, strings and numbers of JSON in colours; text nodes only.
function coloured(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g)) {
    if (parts.length > COLOURED_MAX) break;
    const [whole, string, colon, word] = found;
    parts.push(text.slice(at, found.index), h("span", { class: string ? (colon ? "j-key" : "j-string") : word ? "j-word" : "j-number" }, string ?? whole), colon ?? "");
    at = found.index + whole.length;
  }
  return [...parts, text.slice(at)];
}
export function bodyView(body) {
  const forms = { JSON: body.json, Text: body.text, Hex: hex(body.bytes) };
  const there = Object.keys(forms).filter((name) => forms[name] !== null);
  const pre = h("pre", { class: "body", tabindex: "0" });
  const buttons = there.map((name) => h("button", { type: "button", role: "tab", onclick: () => show(name) }, name));
  function show(name) {
    buttons.forEach((one) => { one.setAttribute("aria-selected", String(one.textContent === name)); one.tabIndex = one.textContent === name ? 0 : -1; });
    pre.dataset.form = name;
    clear(pre, name === "JSON" ? coloured(forms[name]) : forms[name] || "(empty)");
  }
  // As tabs are walked: arrows from one to the next, and only the chosen one with the Tab key.
  const turn = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = buttons[(buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length];
    show(next.textContent);
    next.focus();
  };
  show(there[0]);
  return h("div", {}, h("div", { class: "tabs", role: "tablist", "aria-label": "Form of the body", onkeydown: turn }, buttons,
    h("span", { class: "faint" }, `${bytes(body.size)}${body.isCut ? ", the beginning is shown" : ""}`)), pre);
}
