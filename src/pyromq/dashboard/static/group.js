import { brief, card, change, clear, crumb, count, h, head, link, live, main, many, missing, query, rate, Table, trouble } from "./core.js";
import { Chart } from "./chart.js";
import { deleteGroup, editGroup, resetOffsets } from "./group_form.js";
import { showMember } from "./running.js";

const name = query.get("name") ?? "";
let latest = null;
let most = 1;
const failed = h("div");
const facts = h("p", { class: "facts" });
const lag = new Chart("Lag", [{ name: "lag", kind: "three" }], { unit: "messages", format: brief, least: 2 });
const speed = new Chart("Messages read", [{ name: "read", kind: "two" }]);
function bar(q) {
  const fill = h("i", { class: "hot" });
  if (q.lag === null) return "";
  fill.style.width = `${Math.round((q.lag / most) * 100)}%`;
  return h("span", { class: "gauge" }, h("span", { class: "bar" }, fill));
}
const queues = new Table([
  { title: "Topic", kind: "wide", cell: (q) => h("a", { href: link("/topic", { name: q.topic }) }, q.topic), sign: (q) => q.topic },
  { title: "Broker", cell: (q) => q.broker },
  { title: "Queue", kind: "number", cell: (q) => q.id },
  { title: "Lag", kind: "number", cell: (q) => (q.lag === null ? h("span", { class: "faint" }, "not known") : h("b", { class: q.lag ? "warm" : "faint" }, count(q.lag))), sign: (q) => q.lag },
  { title: "In flight", kind: "number", cell: (q) => (q.inFlight === null ? "" : count(q.inFlight)), sign: (q) => q.inFlight },
  { title: "", cell: bar, sign: (q) => `${q.lag}/${most}` },
  { title: "Is at", kind: "number", cell: (q) => count(q.at) },
  { title: "End", kind: "number", cell: (q) => count(q.max) },
], { key: (q) => `${q.topic}:${q.broker}:${q.id}`, caption: "Lag of each queue", empty: "It has read nothing yet." });
const clients = new Table([
  { title: "Client", cell: (c) => h("code", {}, c.client), sign: (c) => c.client },
  { title: "Address", cell: (c) => c.address },
  { title: "Language", cell: (c) => c.language },
  { title: "Version", cell: (c) => c.version },
  { title: "Brokers", cell: (c) => c.brokers.join(", ") },
  { title: "", kind: "deeds", cell: (c) => h("button", { type: "button", class: "quiet", onclick: () => showMember(name, c.client) }, "Look"), sign: (c) => c.client },
], { key: (c) => c.client, caption: "Members", empty: "Nobody of it is connected." });
const configs = new Table([
  { title: "Broker", cell: (c) => c.broker },
  { title: "May consume", cell: (c) => (c.consumeEnable ? "yes" : "no") },
  { title: "Retries", kind: "number", cell: (c) => c.retryMaxTimes },
  { title: "Retry queues", kind: "number", cell: (c) => c.retryQueueNums },
  { title: "Broadcast", cell: (c) => (c.consumeBroadcastEnable ? "allowed" : "no") },
], { key: (c) => c.broker, caption: "Settings on each broker", empty: "No broker has settings for it: it reads with the defaults." });
const wants = h("ul");
main.append(crumb("Groups", "/groups"), head(name,
  h("a", { class: "button", href: link("/dead-letters", { group: name }) }, "Dead letters"),
  change(h("button", { type: "button", id: "reset", onclick: () => latest && resetOffsets(latest) }, "Move offsets")),
  change(h("button", { type: "button", id: "edit", onclick: () => latest && editGroup(latest) }, "Change")),
  change(h("button", { type: "button", class: "danger", id: "delete", onclick: () => latest && deleteGroup(latest, () => location.assign("/groups")) }, "Delete"))),
failed, facts, h("div", { class: "two-columns" }, card("Lag", lag.node), card("Speed", speed.node)), card("Lag of each queue", queues.node),
card("Members", clients.node, h("h3", {}, "Subscriptions"), wants), card("Settings", configs.node));
live("group", { name }, (shown) => {
  latest = shown;
  most = Math.max(1, ...shown.queues.map((one) => one.lag ?? 0));
  clear(failed, missing(shown.missing), shown.conflicts.map((one) => trouble({ message: `Members subscribe differently: ${one}`, next: "Give all members the same subscriptions; until then messages are missed." })));
  clear(facts, `${shown.missing.length ? "at least " : ""}${many(shown.lag, "message")} behind${shown.inFlight === null ? "" : ` (${count(shown.inFlight)} in flight)`}, ${rate(shown.rate)} read a second, ${shown.members === null ? "members not known yet" : many(shown.members, "member")}, ${many(shown.deadLetters, "dead letter")}`);
  lag.update(shown.points);
  speed.update(shown.ratePoints);
  queues.update(shown.queues);
  clients.update(shown.clients);
  configs.update(shown.configs);
  clear(wants, shown.subscriptions.length ? shown.subscriptions.map((one) => h("li", {}, h("b", {}, one.topic), " ", h("code", {}, one.expression))) : h("li", { class: "faint" }, "not known: nobody is connected"));
}, (error) => clear(failed, trouble(error)));
