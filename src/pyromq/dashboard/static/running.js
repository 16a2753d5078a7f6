// What a member says of itself, and where its threads are.
import { act, clear, count, dialog, get, h, none, rate, Table, time, trouble, when, zone } from "./core.js";

export function showMember(group, client) {
  const place = h("div", { "aria-busy": "true" }, h("p", { class: "empty" }, "Asking the member; it has some seconds to answer…"));
  const stacks = act("Ask for its stacks", () => load(true), { kind: "quiet", say: () => place });
  async function load(withStacks) {
    const shown = await get("/api/members", { group, client, stacks: withStacks ? "1" : "" });
    place.removeAttribute("aria-busy");
    clear(place, shown.conflict && trouble({ message: shown.conflict, next: "Give all members of the group the same subscriptions." }), shown.members.map(member));
    if (withStacks) place.querySelector(".stacks-head")?.scrollIntoView({ block: "start" });
  }
  dialog(client, [h("p", { class: "facts" }, "A member of ", h("b", {}, group)), place], [stacks], { wide: true });
  load(false).catch((error) => clear(place, trouble(error)));
}
function member(one) {
  if (one.failure) return trouble({ message: one.failure, next: "It may have left just now, or be too old to answer." });
  const queues = new Table([
    { title: "Topic", cell: (q) => q.topic }, { title: "Broker", cell: (q) => q.broker }, { title: "Queue", kind: "number", cell: (q) => q.id },
    { title: "Done up to", kind: "number", cell: (q) => count(q.committed) }, { title: "Waiting in it", kind: "number", cell: (q) => count(q.waiting) },
    { title: "Last pull", cell: (q) => (q.lastPull ? when(q.lastPull) : none) }, { title: "Last consumed", cell: (q) => (q.lastConsume ? when(q.lastConsume) : none) },
  ], { key: (q) => `${q.topic}:${q.broker}:${q.id}`, caption: "Its queues", empty: "It has no queue: are there more members than queues?" });
  queues.update(one.queues);
  const rates = new Table([
    { title: "Topic", cell: (t) => t.topic }, { title: "Good", kind: "number", cell: (t) => `${rate(t.okRate)} /s` }, { title: "Failed", kind: "number", cell: (t) => `${rate(t.failedRate)} /s` },
    { title: "Takes", kind: "number", cell: (t) => `${t.milliseconds.toFixed(1)} ms` }, { title: "Failed in the last hour", kind: "number", cell: (t) => count(t.failed) },
  ], { key: (t) => t.topic, caption: "How it goes", empty: "It says nothing of how it goes." });
  rates.update(one.topics);
  return h("div", {},
    h("p", { class: "facts" }, `${one.language}, version ${one.version}, at ${one.address}, since ${time(one.started)} ${zone}`),
    h("h3", {}, "Subscriptions"), h("ul", {}, one.subscriptions.map((each) => h("li", {}, h("b", {}, each.topic), ` ${each.type ?? ""} `, h("code", {}, each.expression)))),
    h("h3", {}, "Queues"), queues.node, h("h3", {}, "How it goes"), rates.node,
    one.stacks && [h("h3", { class: "stacks-head" }, "Stacks"), h("pre", { class: "stacks", tabindex: "0" }, one.stacks)],
    h("details", {}, h("summary", {}, "Settings"), h("dl", {}, Object.entries(one.properties).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))));
}
