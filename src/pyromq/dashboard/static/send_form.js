// Sending a test message: what it says, when it is delivered, and where it went.
import { act, clear, count, dialog, field, get, h, later, link, many, post, select, time, zone } from "./core.js";

const LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".split(" ");
const UNITS = { 1: "seconds", 60: "minutes", 3600: "hours", 86400: "days" };

// Lines of a property's name and its value
function pairs() {
  const rows = h("div", { class: "lines" });
  const add = () => {
    const row = h("div", { class: "line-row pair-row" },
      h("input", { required: true, autocomplete: "off", placeholder: "name", "aria-label": "Name of a property" }),
      h("input", { autocomplete: "off", placeholder: "value", "aria-label": "Value of that property" }),
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this line", onclick: () => { row.remove(); more.focus(); } }, "✕"));
    rows.append(row);
    return row;
  };
  const more = h("button", { type: "button", class: "quiet", onclick: () => add().querySelector("input").focus() }, "Add a property");
  return { node: h("fieldset", {}, h("legend", {}, "Properties"), rows, more),
    read: () => Object.fromEntries([...rows.children].map((row) => [...row.querySelectorAll("input")].map((one) => one.value))) };
}
// At once, after a delay level, which every broker knows, or after any time
function delays() {
  const how = select({ now: "at once", level: "after a delay level", span: "after any time" }, "now");
  const level = select(Object.fromEntries(LEVELS.map((one, at) => [at + 1, `${at + 1} (${one})`])), 3);
  const amount = h("input", { type: "number", min: 0.001, step: "any", value: 90, required: true });
  const unit = select(UNITS, 1);
  const levelField = field("Level", level, "As by messageDelayLevel's default");
  const spanField = h("div", { class: "pair" }, field("Time", amount, "Brokers of 4.9 know levels only"), field("Unit", unit));
  const arrange = () => { levelField.hidden = how.value !== "level"; spanField.hidden = how.value !== "span"; amount.disabled = how.value !== "span"; };
  how.addEventListener("change", arrange);
  arrange();
  return { node: [field("Deliver", how), levelField, spanField],
    read: () => (how.value === "level" ? { delayLevel: Number(level.value) } : how.value === "span" ? { delaySeconds: amount.valueAsNumber * Number(unit.value) } : {}) };
}
function queuesOf(topic) {
  const all = topic.configs.flatMap((one) => Array.from({ length: one.writeQueues }, (_, at) => [`${one.broker}:${at}`, `${one.broker}, queue ${at}`]));
  return { "": "the next in turn", ...Object.fromEntries(all) };
}
const readersOf = (topic) => (topic.groupCount ? `${many(topic.groupCount, "group")} ${topic.groupCount === 1 ? "reads" : "read"} it, and ${topic.groupCount === 1 ? "gets" : "get"} the message: ${topic.groups.map((one) => one.name).join(", ")}.` : "No group has read of it yet.");

function wentTo(sent) {
  const isSafe = sent.status === "SEND_OK";
  return h("div", { class: isSafe ? "sent" : "sent half", role: "status" },
    h("p", {}, h("b", { class: isSafe ? "good" : "warm" }, sent.status), sent.meaning && `: ${sent.meaning}`),
    h("dl", {}, h("dt", {}, "Queue"), h("dd", {}, `${sent.broker}, queue ${sent.queue}`), h("dt", {}, "Offset"), h("dd", {}, count(sent.offset)),
      h("dt", {}, "Message id"), h("dd", {}, h("a", { href: link("/message", { id: sent.placeId, topic: sent.topic }) }, h("code", {}, sent.id))),
      h("dt", {}, "Sent"), h("dd", {}, `${time(Date.now())} ${zone}`)),
    sent.isDelayed && h("p", { class: "faint" }, "It waits for its time: consumers get it then, and its link shows where it waits."));
}

// `topic` is what the page of a topic knows of it; elsewhere its name is typed.
export function sendForm(topic, name = "") {
  let known = topic;
  const to = h("input", { name: "topic", required: true, maxlength: 127, value: topic?.name ?? name, readonly: Boolean(topic), autocomplete: "off", list: "send-topics" });
  const names = h("datalist", { id: "send-topics" });
  const readers = h("p", { class: "facts" });
  const queue = h("select");
  const tag = h("input", { autocomplete: "off" });
  const keys = h("input", { autocomplete: "off" });
  const body = h("textarea", { rows: 8, spellcheck: "false", required: true });
  const properties = pairs();
  const delay = delays();
  function show() {
    clear(readers, known ? readersOf(known) : "Groups that read the topic get the message.");
    clear(queue, Object.entries(known ? queuesOf(known) : { "": "the next in turn" }).map(([key, text]) => h("option", { value: key }, text)));
  }
  const look = later(async () => {
    known = await get("/api/topic", { name: to.value.trim() }).catch(() => null);
    show();
    const found = await get("/api/topics", { filter: to.value, size: 20 }).catch(() => ({ rows: [] }));
    clear(names, found.rows.map((one) => h("option", { value: one.name })));
  });
  if (!topic) { to.addEventListener("input", look); if (name) look(); }
  const send = act("Send", async () => {
    shown.say();
    const at = queue.value.lastIndexOf(":");
    const sent = await post("/api/messages/send", { topic: to.value.trim(), body: body.value, tag: tag.value.trim(), keys: keys.value.trim(), properties: properties.read(),
      ...delay.read(), ...(queue.value ? { broker: queue.value.slice(0, at), queue: Number(queue.value.slice(at + 1)) } : {}) });
    shown.say(wentTo(sent));
  });
  show();
  const shown = dialog(topic ? `Send a message to ${topic.name}` : "Send a message", [
    field("Topic", to), names, readers,
    field("Body", body, "Sent as UTF-8; up to 4 MiB"),
    h("div", { class: "pair" }, field("Tag", tag, "One; groups filter by it"), field("Keys", keys, "Parted by blanks; it is found by them")),
    properties.node, h("div", { class: "pair" }, h("div", { class: "stack" }, delay.node), field("Queue", queue, "Of a chosen one, a send is tried once")),
  ], [send], { wide: true });
  (topic ? body : to).focus();
}
