import { card, change, clear, crumb, count, h, head, link, live, main, missing, none, query, rate, Table, time, trouble, when } from "./core.js";
import { Chart } from "./chart.js";
import { sendForm } from "./send_form.js";
import { deleteTopic, editTopic } from "./topic_form.js";

const name = query.get("name") ?? "";
let latest = null;
const failed = h("div");
const chart = new Chart("Messages in", [{ name: "in", kind: "one" }]);
const facts = h("p", { class: "facts" });
const configs = new Table([
  { title: "Broker", cell: (c) => c.broker },
  { title: "Queues to write", kind: "number", cell: (c) => c.writeQueues },
  { title: "Queues to read", kind: "number", cell: (c) => c.readQueues },
  { title: "Permission", cell: (c) => c.permText },
  { title: "Messages", cell: (c) => c.type.toLowerCase() },
  { title: "Ordered", cell: (c) => (c.ordered ? "yes" : "no") },
], { key: (c) => c.broker, caption: "Settings on each broker", empty: "No broker has it." });
const queues = new Table([
  { title: "Broker", cell: (q) => q.broker },
  { title: "Queue", kind: "number", cell: (q) => q.id },
  { title: "First", kind: "number", cell: (q) => count(q.min) },
  { title: "Next", kind: "number", cell: (q) => count(q.max) },
  { title: "Messages", kind: "number", cell: (q) => count(q.max - q.min) },
  { title: "Last one", cell: (q) => (q.last ? when(q.last) : none) },
], { key: (q) => `${q.broker}:${q.id}`, caption: "Queues", empty: "Nothing is known of its queues yet." });
const groups = new Table([
  { title: "Group", kind: "wide", cell: (g) => h("a", { href: link("/group", { name: g.name }) }, g.name), sign: (g) => g.name },
  { title: "Members", kind: "number", cell: (g) => count(g.members) },
  { title: "Lag", kind: "number", cell: (g) => count(g.lag) },
], { key: (g) => g.name, caption: "Groups that read it", empty: "No group has read of it." });
main.append(crumb("Topics", "/topics"), head(name,
  h("a", { class: "button", href: link("/messages", { topic: name }) }, "Messages"),
  change(h("button", { type: "button", id: "send", onclick: () => latest && sendForm(latest) }, "Send a message")),
  change(h("button", { type: "button", id: "edit", onclick: () => latest && editTopic(latest) }, "Change")),
  change(h("button", { type: "button", class: "danger", id: "delete", onclick: () => latest && deleteTopic(latest, () => location.assign("/topics")) }, "Delete"))),
failed, facts, card("Rate", chart.node), h("div", { class: "two-columns" }, card("Groups that read it", groups.node), card("Settings", configs.node)), card("Queues", queues.node));
live("topic", { name }, (shown) => {
  latest = shown;
  clear(failed, missing(shown.missing), shown.failure && trouble({ message: shown.failure, next: "Its numbers are old until that broker answers." }));
  clear(facts, `${rate(shown.rate)} messages a second, ${count(shown.messages)} kept, looked at ${shown.lookedAt ? time(shown.lookedAt).slice(11, 19) : "not yet"}`);
  chart.update(shown.points);
  configs.update(shown.configs);
  queues.update(shown.queues);
  groups.update(shown.groups);
}, (error) => clear(failed, trouble(error)));
