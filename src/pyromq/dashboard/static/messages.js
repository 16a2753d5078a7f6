import { act, bytes, card, change, clear, count, drawn, field, get, h, head, link, main, query, select, still, Table, time, trouble, withZone, zone } from "./core.js";
import { sendForm } from "./send_form.js";

still();
const local = (ms) => { const d = new Date(Number(ms)); return new Date(d - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 19); };
const by = select({ time: "topic and time", key: "key", id: "message id" }, query.get("by") ?? "time", { id: "by" });
const topic = h("input", { id: "topic", value: query.get("topic") ?? "", list: "topics", autocomplete: "off", placeholder: "topic" });
const key = h("input", { id: "key", value: query.get("key") ?? "", autocomplete: "off" });
const id = h("input", { id: "id", value: query.get("id") ?? "", autocomplete: "off", size: 36 });
const begin = h("input", { id: "begin", type: "datetime-local", step: 1, value: query.has("begin") ? local(query.get("begin")) : "" });
const end = h("input", { id: "end", type: "datetime-local", step: 1, value: query.has("end") ? local(query.get("end")) : "" });
const names = h("datalist", { id: "topics" });
const fields = { topic: field("Topic", topic), key: field("Key", key), id: field("Message id", id), begin: field("From", begin, `Empty: the newest · ${zone}`), end: field("To", end) };
const failed = h("div");
const table = new Table([
  { title: withZone("Stored"), cell: (m) => time(m.stored) },
  { title: "Message", cell: (m) => h("a", { href: link("/message", { id: m.placeId }) }, h("code", {}, m.id)), sign: (m) => m.placeId },
  { title: "Tag", cell: (m) => m.tags ?? "" },
  { title: "Keys", kind: "keys", cell: (m) => m.keys.join(" ") },
  { title: "Queue", cell: (m) => `${m.broker} ${m.queue}` },
  { title: "Offset", kind: "number", cell: (m) => count(m.offset) },
  { title: "Size", kind: "number", cell: (m) => bytes(m.size) },
  { title: "Body", kind: "line", cell: (m) => m.line },
], { key: (m) => m.placeId, caption: "Messages", empty: "No message is so. Is the topic right, and the time?" });
let rows = [];
let cursor = null;
const more = act("More", async () => { await search(cursor); }, { kind: "quiet", say: () => failed });
more.hidden = true;
const ms = (input) => (input.value ? new Date(input.value).getTime() : "");
function asked() {
  if (by.value === "key") return { by: "key", topic: topic.value.trim(), key: key.value.trim(), begin: ms(begin), end: ms(end) };
  if (by.value === "id") return { by: "id", topic: topic.value.trim(), id: id.value.trim() };
  return { by: "time", topic: topic.value.trim(), begin: ms(begin), end: ms(end) };
}
async function search(from = null) {
  clear(failed);
  hint.hidden = true;
  const order = asked();
  history.replaceState(null, "", link(location.pathname, order));
  const shown = await get("/api/messages", { ...order, cursor: from });
  rows = from ? [...rows, ...shown.rows] : shown.rows;
  cursor = shown.cursor;
  more.hidden = !cursor;
  clear(failed, (shown.missing ?? []).map((one) => trouble({ message: `What ${one.broker} has is missing: ${one.why}`, next: one.next })));
  found.hidden = false;
  table.update(rows);
  more.textContent = order.by === "time" && !order.begin ? "Older" : "More";
  drawn();
}
function arrange() {
  fields.topic.hidden = false;
  fields.key.hidden = by.value !== "key";
  fields.id.hidden = by.value !== "id";
  fields.begin.hidden = fields.end.hidden = by.value === "id";
  topic.required = by.value !== "id";
  key.required = by.value === "key";
  id.required = by.value === "id";
}
by.addEventListener("change", arrange);
arrange();
topic.addEventListener("input", async () => {
  const shown = await get("/api/topics", { filter: topic.value, kind: "all", size: 20 }).catch(() => ({ rows: [] }));
  clear(names, shown.rows.map((one) => h("option", { value: one.name })));
});
const form = h("form", { class: "toolbar" }, field("Find by", by), Object.values(fields), act("Search", () => search(), { say: () => failed }));
const found = card(null, table.node, more);
const hint = h("p", { class: "empty" }, "Say a topic and press Search: the newest messages come first.");
found.hidden = true;
main.append(head("Messages", change(h("button", { type: "button", id: "send", onclick: () => sendForm(null, topic.value.trim()) }, "Send a message"))), form, names, failed, hint, found);
if (query.get("topic") || query.get("id")) search().catch((error) => clear(failed, trouble(error)));
