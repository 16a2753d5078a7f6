import { act, ago, card, clear, count, h, head, live, main, post, time, trouble } from "./core.js";

const KINDS = { problem: "Problems", warning: "Warnings", note: "Notes" };
const failed = h("div");
const sum = h("div", { class: "verdict", role: "status" });
const found = h("div", { class: "findings", role: "region", "aria-label": "Findings" });
const more = h("div");
const progress = h("p", { class: "facts doing", hidden: true });
const examine = act("Examine now", async () => {
  await post("/api/health/examine", {});
  progress.hidden = false;
  clear(progress, "The doctor begins…");
}, { kind: "primary", say: () => failed });
let shownOf = "";

// Browsers give the clipboard to safe origins only; elsewhere the text is marked, ready to be copied.
function copied(pre) {
  const button = h("button", { type: "button", class: "quiet", onclick: async () => {
    let said = "Copied";
    try { await navigator.clipboard.writeText(pre.textContent); } catch { getSelection().selectAllChildren(pre); said = "Marked"; }
    button.textContent = said;
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return button;
}
function step(text) {
  const pre = h("pre", { tabindex: "0" }, text);
  return h("div", { class: "do" }, h("span", { class: "faint" }, "Do"), pre, copied(pre));
}
function finding(one) {
  return h("article", { class: `finding ${one.severity}` },
    h("div", { class: "finding-head" }, h("span", { class: `mark ${one.severity}` }, one.severity), h("b", {}, one.subject), h("span", { class: "faint check-name" }, one.check)),
    h("p", { class: "what" }, one.message),
    one.why && h("p", { class: "why" }, one.why),
    one.do && step(one.do),
    Object.keys(one.facts).length > 0 && h("details", {}, h("summary", {}, "Facts"), h("pre", { tabindex: "0" }, JSON.stringify(one.facts, null, 2))));
}
function verdict(shown) {
  if (shown.isWell === null) return [h("strong", { class: "faint" }, shown.doing ? "The first examination is under way" : "Not examined yet")];
  const words = Object.entries(KINDS).filter(([kind]) => shown.counts[kind]).map(([kind, name]) => h("span", { class: `mark ${kind}` }, `${shown.counts[kind]} ${shown.counts[kind] === 1 ? kind : name.toLowerCase()}`));
  const looked = Object.entries(shown.checked).filter(([, many]) => many).map(([name, many]) => `${count(many)} ${many === 1 ? name.replace("_", " ").slice(0, -1) : name.replace("_", " ")}`).join(", ");
  return [h("strong", { class: shown.isWell ? "good" : "" }, shown.isWell ? "All is well" : "Something needs you"), words,
    h("span", { class: "faint" }, `${looked}. Examined `, h("time", { title: time(shown.at) }, ago(shown.at)), ".")];
}
main.append(head("Health", examine), failed, card(null, sum, progress), found, more);

live("health", {}, (shown) => {
  clear(failed, shown.failure && trouble({ message: shown.failure.error, next: shown.failure.next }));
  clear(sum, verdict(shown));
  progress.hidden = !shown.doing;
  clear(progress, shown.doing && `Looking at ${shown.doing}…`);
  const sign = JSON.stringify([shown.at, shown.findings.length]);
  if (sign === shownOf) return;
  shownOf = sign;
  clear(found, shown.findings.map(finding));
  clear(more,
    shown.findingCount > shown.findings.length && h("p", { class: "facts" }, `${count(shown.findingCount - shown.findings.length)} more; all of them are listed by: pyromq doctor`),
    shown.couldNot.length > 0 && card("Could not be looked at", h("ul", {}, shown.couldNot.map((one) => h("li", {}, one)))),
    shown.checks.length > 0 && card("What is checked", h("ul", { class: "checks" }, shown.checks.map((one) => h("li", {}, one)))));
}, (error) => clear(failed, trouble(error)));
