import { brief, bytes, card, clear, count, h, head, lasted, link, live, main, none, perSecond, Table, time, trouble, zone } from "./core.js";
import { Chart, spark } from "./chart.js";

// From so many bytes on a slave that is behind stands out.
const BEHIND_BYTES = 16 * 1024 * 1024;
const tiles = [["Messages in", "/topics?sort=rate"], ["Messages out", "/groups?sort=rate"], ["Lag of all groups", "/groups?sort=lag&state=behind"],
  ["Topics", "/topics"], ["Groups", "/groups"], ["Dead letters", "/dead-letters"]].map(([name, to]) => {
  const value = h("b", { id: `tile-${name.toLowerCase().replaceAll(" ", "-")}` }, none);
  return { value, node: h("a", { class: "tile", href: to }, h("span", {}, name), value) };
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
function state(broker) {
  if (broker.goneAt) return h("span", { class: "bad", title: "No name server knows it any more" }, `gone since ${time(broker.goneAt).slice(11, 19)}`);
  if (broker.failure) return h("span", { class: "bad", title: broker.failure }, broker.isRefusing ? "refuses" : "does not answer");
  return h("span", { class: "good" }, "answers");
}
function up(broker) {
  if (broker.goneAt || broker.upSeconds === null) return none;
  return h("time", { title: `Started ${time(broker.since)} ${zone}, by its own clock` }, lasted(broker.upSeconds));
}
function version(broker) {
  if (!broker.version) return none;
  const text = broker.pyromqVersion ? `${broker.version}, PyroMQ ${broker.pyromqVersion}` : broker.version;
  return broker.versionDiffers ? h("span", { class: "warm", title: "Brokers of this cluster have different versions" }, `${text}, differs`) : text;
}
const badge = h("a", { class: "health", href: "/health", id: "health-badge" }, "Health");
function health(shown) {
  const worst = ["problem", "warning", "note"].find((kind) => shown.counts[kind]);
  const many = worst && shown.counts[worst];
  badge.dataset.kind = shown.isWell === null ? "unknown" : worst ?? "well";
  badge.textContent = shown.isWell === null ? "Health: not examined yet" : worst ? `Health: ${many} ${worst}${many === 1 ? "" : "s"}` : "Health: all is well";
}
function replication(broker) {
  if (broker.goneAt) return none;
  const words = [];
  if (broker.role === "master") words.push(broker.slaves ? `${broker.slaves} ${broker.slaves === 1 ? "slave" : "slaves"}` : null);
  else words.push(broker.behindBytes === null ? "how far is not known" : broker.behindBytes ? `${bytes(broker.behindBytes)} behind` : "up to date");
  if (broker.inSync !== null) words.push(broker.inSync ? "in sync" : "not in sync");
  if (broker.epoch) words.push(`epoch ${broker.epoch}`);
  const text = words.filter(Boolean).join(", ");
  const isBad = broker.inSync === false || broker.behindBytes > BEHIND_BYTES;
  return text ? h("span", { class: isBad ? "warm" : null }, text) : none;
}
const brokers = new Table([
  { title: "Broker", cell: (b) => h("b", {}, b.name), sign: (b) => b.name },
  { title: "Role", cell: (b) => h("span", { class: `badge ${b.role}` }, b.role === "master" ? "master" : `slave ${b.id}`), sign: (b) => b.role + b.id },
  { title: "State", cell: state, sign: (b) => `${b.failure}${b.goneAt}` },
  { title: "Replication", cell: replication, sign: (b) => [b.goneAt, b.slaves, b.behindBytes, b.inSync, b.epoch].join() },
  { title: "In", kind: "number", cell: (b) => perSecond(b.in) },
  { title: "Out", kind: "number", cell: (b) => perSecond(b.out) },
  { title: "Disk", cell: disk, sign: (b) => `${b.disk}${b.capacity}` },
  { title: "Log", kind: "number", cell: (b) => bytes(b.logBytes) },
  { title: "Today", kind: "number", cell: (b) => brief(b.today) },
  { title: "Up for", cell: up, sign: (b) => `${b.goneAt}${b.since}${lasted(b.upSeconds)}` },
  { title: "Version", cell: version, sign: (b) => `${b.version}${b.pyromqVersion}${b.versionDiffers}` },
  { title: "Address", cell: (b) => h("code", {}, b.address), sign: (b) => b.address },
  { title: "Cluster", cell: (b) => b.cluster },
], { key: (b) => b.address + b.name, caption: "Brokers", empty: "No broker is registered at the name server. Start one: pyromq broker -n HOST:PORT" });
const small = (caption, of, kind, value, to, empty) => new Table([
  { title: of, kind: "wide", cell: (one) => h("a", { href: link(to, { name: one.name }) }, one.name), sign: (one) => one.name },
  { title: "", cell: (one) => spark(one.points, "how it moved") },
  { title: kind, kind: "number", cell: value },
], { key: (one) => one.name, caption, empty, holds: true });
const busiest = small("Busiest topics", "Topic", "In", (one) => perSecond(one.rate), "/topic", "There is no topic yet.");
const behind = small("Groups most behind", "Group", "Lag", (one) => count(one.lag), "/group", "No group is behind.");

main.append(head("Cluster", badge), failed, warnings, h("div", { class: "tiles" }, tiles.map((one) => one.node)),
  card("Traffic", chart.node), card("Brokers", brokers.node),
  h("div", { class: "two-columns" }, card("Busiest topics", busiest.node), card("Groups most behind", behind.node)));

live("overview", {}, (shown) => {
  clear(failed);
  health(shown.health);
  const values = [perSecond(shown.in), perSecond(shown.out), brief(shown.lag), count(shown.topicCount), count(shown.groupCount), brief(shown.deadLetters)];
  values.forEach((value, at) => { tiles[at].value.textContent = value; });
  tiles[2].value.title = `${count(shown.lag)} messages`;
  tiles[5].value.title = `${count(shown.deadLetters)} messages`;
  tiles[2].value.classList.toggle("warm", shown.lag > 0);
  // As bad as the doctor finds them: this page and Health never disagree.
  tiles[5].value.classList.toggle("bad", shown.deadLetterSeverity === "problem");
  tiles[5].value.classList.toggle("warm", shown.deadLetterSeverity === "warning");
  chart.update(shown.inPoints, shown.outPoints);
  brokers.update(shown.brokers);
  busiest.update(shown.busiest);
  behind.update(shown.behind);
  clear(warnings, shown.warnings.map((one) => h("div", { class: "trouble", role: "alert" }, h("strong", {}, `${one.what}: ${one.why}`), h("p", {}, one.next))));
}, (error) => clear(failed, trouble(error)));
