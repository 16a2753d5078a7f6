import { ago, brief, bytes, card, clear, count, h, head, link, live, main, none, rate, Table, trouble } from "./core.js";
import { Chart, spark } from "./chart.js";

const tiles = ["Messages in", "Messages out", "Lag of all groups", "Topics", "Groups", "Dead letters"].map((name) => {
  const value = h("b", { id: `tile-${name.toLowerCase().replaceAll(" ", "-")}` }, none);
  return { value, node: h("div", { class: "tile" }, h("span", {}, name), value) };
});
const chart = new Chart("Messages a second", [{ name: "in", kind: "one" }, { name: "out", kind: "two" }]);
const warnings = h("div", { class: "warnings" });
const failed = h("div");

function disk(broker) {
  if (broker.disk === null || broker.disk < 0) return none;
  const bar = h("i", { class: broker.disk >= 0.75 ? "hot" : null });
  bar.style.width = `${Math.min(100, broker.disk * 100)}%`;
  return h("span", { class: "gauge", title: broker.capacity ?? "" }, h("span", { class: "bar" }, bar), `${Math.round(broker.disk * 100)} %`);
}
function replication(broker) {
  const words = [];
  if (broker.role === "slave") words.push(broker.behindBytes === null ? "?" : broker.behindBytes ? `${bytes(broker.behindBytes)} behind` : "up to date");
  if (broker.inSync !== null) words.push(broker.inSync ? "in sync" : "not in sync");
  if (broker.epoch) words.push(`epoch ${broker.epoch}`);
  return words.join(", ") || none;
}
const brokers = new Table([
  { title: "Broker", cell: (b) => h("b", {}, b.name), sign: (b) => b.name },
  { title: "Cluster", cell: (b) => b.cluster },
  { title: "Role", cell: (b) => h("span", { class: `badge ${b.role}` }, b.role === "master" ? "master" : `slave ${b.id}`), sign: (b) => b.role + b.id },
  { title: "Address", cell: (b) => h("code", {}, b.address), sign: (b) => b.address },
  { title: "State", cell: (b) => (b.failure ? h("span", { class: "bad", title: b.failure }, "does not answer") : h("span", { class: "good" }, "answers")), sign: (b) => b.failure },
  { title: "Replication", cell: replication },
  { title: "In", kind: "number", cell: (b) => `${rate(b.in)} /s` },
  { title: "Out", kind: "number", cell: (b) => `${rate(b.out)} /s` },
  { title: "Disk", cell: disk, sign: (b) => `${b.disk}${b.capacity}` },
  { title: "Log", kind: "number", cell: (b) => bytes(b.logBytes) },
  { title: "Today", kind: "number", cell: (b) => brief(b.today) },
  { title: "Started", cell: (b) => (b.since ? ago(b.since) : none) },
  { title: "Version", cell: (b) => b.version ?? none },
], { key: (b) => b.address + b.name, caption: "Brokers", empty: "No broker is registered at the name server. Start one: pyromq broker -n HOST:PORT" });
const small = (caption, of, kind, value, to, empty) => new Table([
  { title: of, cell: (one) => h("a", { href: link(to, { name: one.name }) }, one.name), sign: (one) => one.name },
  { title: "", cell: (one) => spark(one.points, "how it moved") },
  { title: kind, kind: "number", cell: value },
], { key: (one) => one.name, caption, empty });
const busiest = small("Busiest topics", "Topic", "In", (one) => `${rate(one.rate)} /s`, "/topic", "There is no topic yet.");
const behind = small("Groups most behind", "Group", "Lag", (one) => count(one.lag), "/group", "No group is behind.");

main.append(head("Cluster"), failed, warnings, h("div", { class: "tiles" }, tiles.map((one) => one.node)),
  card("Traffic", chart.node), card("Brokers", brokers.node),
  h("div", { class: "two-columns" }, card("Busiest topics", busiest.node), card("Groups most behind", behind.node)));

live("overview", {}, (shown) => {
  clear(failed);
  const values = [`${rate(shown.in)} /s`, `${rate(shown.out)} /s`, brief(shown.lag), count(shown.topicCount), count(shown.groupCount), brief(shown.deadLetters)];
  values.forEach((value, at) => { tiles[at].value.textContent = value; });
  chart.update(shown.inPoints, shown.outPoints);
  brokers.update(shown.brokers);
  busiest.update(shown.busiest);
  behind.update(shown.behind);
  clear(warnings, shown.warnings.map((one) => h("div", { class: "trouble", role: "alert" }, h("strong", {}, `${one.what}: ${one.why}`), h("p", {}, one.next))));
}, (error) => clear(failed, trouble(error)));
