import { bytes, card, clear, count, crumb, get, h, head, link, main, none, query, still, Table, time, trouble, withZone, zone } from "./core.js";
import { bodyView } from "./body.js";

still();
const place = h("div", { "aria-busy": "true" }, h("p", { class: "empty" }, "Looking for it…"));
const back = crumb("Messages", "/messages");
main.append(back, head("Message"), place);
const pairs = (rows) => h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value ?? none)]));
function life(shown) {
  const table = new Table([
    { title: withZone("When"), cell: (e) => time(e.at) },
    { title: "What", cell: (e) => h("span", { class: e.ok ? "good" : "bad" }, e.ok ? e.what : `${e.what}: failed`) },
    { title: "Group", cell: (e) => e.group ?? "" },
    { title: "Try", kind: "number", cell: (e) => e.try ?? "" },
    { title: "Took", kind: "number", cell: (e) => (e.ms === null ? "" : `${e.ms} ms`) },
    { title: "Where", cell: (e) => e.where },
    { title: "Detail", kind: "wide", cell: (e) => e.detail },
  ], { key: (e) => JSON.stringify(e), caption: "Life", empty: "Nothing more is known of it." });
  table.update(shown.steps);
  return [table.node, shown.note && h("p", { class: "faint" }, shown.note)];
}
get("/api/message", { id: query.get("id"), topic: query.get("topic") }).then((m) => {
  const title = `Message ${m.id}`;
  document.title = `${title} · PyroMQ`;
  back.href = link("/messages", { topic: m.topic });
  clear(place,
    card("Body", bodyView(m.body), h("a", { class: "button", href: link("/api/body", { id: m.placeId }), download: true }, "Download")),
    h("div", { class: "two-columns" },
      card("Message", pairs([
        ["Topic", h("a", { href: link("/topic", { name: m.topic }) }, m.topic)], ["Message id", h("code", {}, m.id)], ["Broker's id", h("code", {}, m.placeId)],
        ["Tag", m.tags], ["Keys", m.keys.map((key) => [h("a", { href: link("/messages", { by: "key", topic: m.topic, key }) }, key), " "])], ["Queue", `${m.broker}, queue ${m.queue}, offset ${count(m.offset)}`],
        ["Sent", `${time(m.born)} ${zone} from ${m.bornHost}`], ["Stored", `${time(m.stored)} ${zone} at ${m.storeHost}`], ["Tries", String(m.tries)], ["Size", bytes(m.size)]])),
      card("Properties", pairs(Object.entries(m.properties).map(([name, value]) => [name, h("code", {}, value)])))),
    card("Life", life(m.trace)));
  place.removeAttribute("aria-busy");
}).catch((error) => clear(place, trouble(error)));
