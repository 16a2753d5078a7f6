// Creating and changing a topic.
import { act, confirmed, count, dialog, field, get, h, many, post, select, toast, told } from "./core.js";

const number = (value) => h("input", { type: "number", min: 1, max: 1024, value, required: true });

export async function editTopic(topic) {
  const known = topic?.configs?.[0] ?? { readQueues: 8, writeQueues: 8, perm: 6, ordered: false, type: "NORMAL" };
  const name = h("input", { name: "name", required: true, maxlength: 127, pattern: "[%\\|\\w\\-]+", value: topic?.name ?? "", readonly: Boolean(topic), autocomplete: "off" });
  const read = number(known.readQueues);
  const write = number(known.writeQueues);
  const perm = select({ 6: "read and write", 4: "read only", 2: "write only" }, known.perm);
  const types = { NORMAL: "normal", FIFO: "in order (FIFO)", DELAY: "delayed", TRANSACTION: "transaction", MIXED: "of all types" };
  const type = select(known.type in types ? types : { ...types, [known.type]: known.type.toLowerCase() }, known.type);
  const ordered = h("input", { type: "checkbox", checked: known.ordered });
  const masters = (await get("/api/overview")).brokers.filter((one) => one.role === "master").map((one) => one.name);
  const boxes = [...new Set(masters)].map((broker) => h("input", { type: "checkbox", value: broker, checked: !topic || topic.configs.some((one) => one.broker === broker) }));
  const store = async () => {
    const brokers = boxes.filter((box) => box.checked).map((box) => box.value);
    const results = await post("/api/topics/put", { name: name.value.trim(), readQueues: read.valueAsNumber, writeQueues: write.valueAsNumber,
      perm: Number(perm.value), ordered: ordered.checked, type: type.value === known.type ? null : type.value, brokers });
    if (results.some((one) => one.failure)) { shown.say(told(results)); return results; }
    shown.close();
    toast(`${name.value} is ${topic ? "changed" : "created"} on ${results.length} ${results.length === 1 ? "broker" : "brokers"}`);
    document.dispatchEvent(new CustomEvent("changed"));
    return results;
  };
  const save = act(topic ? "Save" : "Create", async () => {
    // Queues that are read no more keep what nobody has read, and it is deleted unread when it is old.
    if (!topic || read.valueAsNumber >= known.readQueues) { await store(); return; }
    confirmed(`Read fewer queues of ${topic.name}?`, { verb: "Save", heading: "What nobody reads any more", lost: [
      `Queues ${read.valueAsNumber} to ${known.readQueues - 1} of each broker: ${left(topic, read.valueAsNumber)} there, read or not.`,
      "They can be read again if the queues come back before they are old (fileReservedTime); then they are gone.",
    ] }, store);
  });
  const shown = dialog(topic ? `Change ${topic.name}` : "New topic", [
    field("Name", name, "Letters, digits, %, |, - and _"),
    h("div", { class: "pair" }, field("Queues to write", write), field("Queues to read", read, "Of each broker")),
    h("div", { class: "pair" }, field("Permission", perm), field("Messages", type, "What clients that speak gRPC may send")),
    h("label", { class: "check" }, ordered, "Ordered: brokers that are away keep their queues"),
    h("fieldset", {}, h("legend", {}, "Brokers"), boxes.map((box) => h("label", { class: "check" }, box, box.value))),
  ], [save]);
  if (!topic) name.focus();
}

// Messages of queues that are to be read no more; a page knows not every queue of a topic with very many
function left(topic, queues) {
  const sum = topic.queues.filter((one) => one.id >= queues).reduce((all, one) => all + one.max - one.min, 0);
  return `${topic.queueCount > topic.queues.length ? "at least " : ""}${many(sum, "message")}`;
}

export function deleteTopic(topic, after) {
  const brokers = topic.configs.map((one) => one.broker).join(", ");
  confirmed(`Delete topic ${topic.name}?`, { verb: "Delete for ever", typed: topic.name, lost: [
    `${many(topic.messages, "message")} in ${many(topic.queueCount, "queue")} on ${brokers}: nothing brings them back.`,
    ...topic.groups.map((one) => `How far group ${one.name} has read${one.lag ? `; ${many(one.lag, "message")} it has not read yet` : ""}.`),
    topic.groupCount > topic.groups.length && `How far ${count(topic.groupCount - topic.groups.length)} more groups have read.`,
    "Its settings. Producers that go on sending are refused, or create it anew where brokers may.",
  ] }, async () => {
    const results = await post("/api/topics/delete", { name: topic.name });
    if (!results.some((one) => one.failure)) after();
    return results;
  });
}
