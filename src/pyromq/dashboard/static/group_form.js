// Creating, changing and deleting a group; moving where it goes on reading.
import { act, clear, confirmed, count, dialog, field, h, losses, many, post, select, Table, toast, told, trouble, zone } from "./core.js";

export function editGroup(group) {
  const known = group?.configs?.[0] ?? { consumeEnable: true, consumeFromMinEnable: true, consumeBroadcastEnable: true, retryMaxTimes: 16, retryQueueNums: 1 };
  const name = h("input", { name: "name", required: true, maxlength: 255, pattern: "[%\\|\\w\\-]+", value: group?.name ?? "", readonly: Boolean(group), autocomplete: "off" });
  const tries = h("input", { type: "number", min: -1, max: 10000, value: known.retryMaxTimes, required: true });
  const queues = h("input", { type: "number", min: 0, max: 1024, value: known.retryQueueNums, required: true });
  const flag = (key) => h("input", { type: "checkbox", name: key, checked: known[key] });
  const enable = flag("consumeEnable");
  const first = flag("consumeFromMinEnable");
  const broadcast = flag("consumeBroadcastEnable");
  const fifo = flag("consumeMessageOrderly");
  const save = act(group ? "Save" : "Create", async () => {
    const results = await post("/api/groups/put", { name: name.value.trim(), retryMaxTimes: tries.valueAsNumber, retryQueueNums: queues.valueAsNumber,
      consumeEnable: enable.checked, consumeFromMinEnable: first.checked, consumeBroadcastEnable: broadcast.checked, consumeMessageOrderly: fifo.checked });
    if (results.some((one) => one.failure)) { shown.say(told(results)); return; }
    shown.close();
    toast(`${name.value} is ${group ? "changed" : "created"} on ${results.length} ${results.length === 1 ? "broker" : "brokers"}`);
  });
  const shown = dialog(group ? `Change ${group.name}` : "New group", [
    field("Name", name, "Letters, digits, %, |, - and _"),
    h("div", { class: "pair" }, field("Retries", tries, "Then a message is a dead letter; -1: for ever, of orderly consumers"), field("Retry queues", queues)),
    h("label", { class: "check" }, enable, "May consume"),
    h("label", { class: "check" }, first, "May begin at the first message"),
    h("label", { class: "check" }, broadcast, "May consume as broadcast"),
    h("label", { class: "check" }, fifo, "One message of a queue after the other (FIFO, for members that pop)"),
  ], [save]);
  if (!group) name.focus();
}

export function deleteGroup(group, after) {
  const name = group.name;
  const keep = h("input", { type: "checkbox" });
  confirmed(`Delete group ${name}?`, { verb: "Delete for ever", typed: name, lost: [
    `How far it has read, in ${many(group.queueCount, "queue")} of ${group.topicNames.filter((one) => !one.startsWith("%RETRY%")).join(", ") || "no topic"}, unless you keep it below: a group of this name begins anew.`,
    group.lag > 0 && `${many(group.lag, "message")} that it has not read yet: nobody reads them for it.`,
    `Its settings on ${group.configs.map((one) => one.broker).join(", ") || "all brokers"}.`,
  ], more: [h("p", { class: "facts" }, group.deadLetters > 0 ? `Messages stay, its ${many(group.deadLetters, "dead letter")} too.` : "Messages stay."),
    h("label", { class: "check" }, keep, "Keep how far it has read")] }, async () => {
    const results = await post("/api/groups/delete", { name, keepOffsets: keep.checked });
    if (!results.some((one) => one.failure)) after();
    return results;
  });
}

const MOVES = (caption, { isDone }) => new Table([
  { title: "Broker", cell: (m) => m.broker },
  { title: "Queue", kind: "number", cell: (m) => m.id },
  { title: "Is at", kind: "number", cell: (m) => (m.at === null ? "nowhere yet" : count(m.at)) },
  { title: "Goes to", kind: "number", cell: (m) => count(m.to) },
  { title: "So it", kind: "number", cell: (m) => (m.change === null ? "" : m.change === 0 ? "stays" : m.change > 0 ? `skips ${count(m.change)}` : `reads ${count(-m.change)} again`) },
  { title: "First", kind: "number", cell: (m) => count(m.min) },
  { title: "End", kind: "number", cell: (m) => count(m.max) },
  { title: "", cell: (m) => (m.failure ? h("span", { class: "bad" }, m.failure) : isDone ? h("span", { class: "good" }, "done") : "") },
], { key: (m) => `${m.broker}:${m.id}`, caption, empty: "The topic has no queue." });

export function resetOffsets(group) {
  const topics = group.topicNames.filter((one) => !one.startsWith("%RETRY%"));
  const topic = h("input", { required: true, value: topics[0] ?? "", list: "topics-read", autocomplete: "off" });
  const known = h("datalist", { id: "topics-read" }, topics.map((one) => h("option", { value: one })));
  const where = select({ time: "at a time", first: "at the first message", last: "behind the last message", offset: "at an offset" }, "time");
  const at = h("input", { type: "datetime-local", step: 1 });
  const now = new Date(Date.now() - 3600_000);
  at.value = new Date(now - now.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  const offset = h("input", { type: "number", min: 0, value: 0 });
  const atField = field("Time", at, zone);
  const offsetField = field("Offset", offset, "Of every queue; cut to what is there");
  const place = h("div");
  const order = () => {
    const made = { group: group.name, topic: topic.value.trim(), where: where.value };
    if (where.value === "time") made.time = new Date(at.value).getTime();
    if (where.value === "offset") made.offset = offset.valueAsNumber;
    return made;
  };
  let previewed = "";
  const move = act("Move it", async () => {
    const done = await post("/api/offsets/move", JSON.parse(previewed));
    const table = MOVES("What was moved", { isDone: true });
    table.update(done.moves);
    const failures = done.moves.filter((one) => one.failure).length;
    clear(place, h("p", { class: failures ? "bad" : "good", role: "status" }, failures ? `${failures} queues were not moved.` : `Moved: ${done.how}.`), table.node);
    move.hidden = true;
  }, { kind: "danger" });
  move.hidden = true;
  const forget = () => { move.hidden = true; previewed = ""; clear(place); atField.hidden = where.value !== "time"; offsetField.hidden = where.value !== "offset"; };
  const look = act("Preview", async () => {
    forget();
    const asked = order();
    const shown = await post("/api/offsets/preview", asked);
    const table = MOVES("What would move", { isDone: false });
    table.update(shown.moves);
    clear(place, h("p", { role: "status" }, `Nothing has moved yet; ${shown.how}. `,
      h("b", {}, `${count(shown.again)} messages would be read again, ${count(shown.skipped)} skipped.`)), table.node,
    !shown.refusal && losses([shown.skipped > 0 && `${many(shown.skipped, "message")}: ${group.name} does not get what it skips.`,
      shown.again > 0 && `${many(shown.again, "message")} ${shown.again === 1 ? "is" : "are"} handled a second time.`,
      "Where it is now: no broker keeps that. Note the column \"Is at\" if you may want to go back."]),
    shown.refusal && trouble({ message: shown.refusal, next: "Nothing moves until then." }));
    if (!shown.refusal) { previewed = JSON.stringify(asked); move.hidden = false; }
  });
  for (const input of [topic, where, at, offset]) input.addEventListener("input", forget);
  forget();
  dialog(`Move ${group.name}`, [h("div", { class: "pair" }, field("Topic", topic), field("Go on", where)), known, atField, offsetField, place], [look, move], { wide: true });
}
