import { bytes, card, clear, get, h, head, link, main, none, query, still, Table, time, trouble } from "./core.js";
import { bodyView } from "./body.js";

still();
const place = h("div", { "aria-busy": "true" }, h("p", { class: "empty" }, "Looking for it…"));
main.append(head("Message"), place);
const pairs = (rows) => h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value ?? none)]));
const WHAT = { Pub: "sent", SubBefore: "given to a consumer", SubAfter: "consumed", EndTransaction: "transaction ended" };
function trace(shown) {
  if (!shown.events.length) return h("p", { class: "empty" }, `No trace: ${shown.why}.`);
  const table = new Table([
    { title: "When", cell: (e) => time(e.at) },
    { title: "What", cell: (e) => h("span", { class: e.ok === false ? "bad" : "good" }, e.what === "SubAfter" && !e.ok ? "failed" : WHAT[e.what] ?? e.what) },
    { title: "Group", cell: (e) => e.group },
    { title: "Try", kind: "number", cell: (e) => (e.what === "SubBefore" ? e.tries + 1 : "") },
    { title: "Took", kind: "number", cell: (e) => (e.ms === undefined ? "" : `${e.ms} ms`) },
  ], { key: (e) => JSON.stringify(e), caption: "Trace", empty: "" });
  table.update(shown.events);
  return table.node;
}
get("/api/message", { id: query.get("id"), topic: query.get("topic") }).then((m) => {
  clear(place,
    card("Body", bodyView(m.body), h("a", { class: "button", href: link("/api/body", { id: m.placeId }), download: true }, "Download")),
    h("div", { class: "two-columns" },
      card("Message", pairs([
        ["Topic", h("a", { href: link("/topic", { name: m.topic }) }, m.topic)], ["Message id", h("code", {}, m.id)], ["Broker's id", h("code", {}, m.placeId)],
        ["Tag", m.tags], ["Keys", m.keys.join(" ")], ["Queue", `${m.broker}, queue ${m.queue}, offset ${m.offset}`],
        ["Sent", `${time(m.born)} from ${m.bornHost}`], ["Stored", `${time(m.stored)} at ${m.storeHost}`], ["Tries", String(m.tries)], ["Size", bytes(m.size)]])),
      card("Properties", pairs(Object.entries(m.properties).map(([name, value]) => [name, h("code", {}, value)])))),
    card("Trace", trace(m.trace)));
  place.removeAttribute("aria-busy");
}).catch((error) => clear(place, trouble(error)));
