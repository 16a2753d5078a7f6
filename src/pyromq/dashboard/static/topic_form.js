// Creating and changing a topic.
import { act, dialog, field, get, h, post, select, toast, told } from "./core.js";

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
  const save = act(topic ? "Save" : "Create", async () => {
    const brokers = boxes.filter((box) => box.checked).map((box) => box.value);
    const results = await post("/api/topics/put", { name: name.value.trim(), readQueues: read.valueAsNumber, writeQueues: write.valueAsNumber,
      perm: Number(perm.value), ordered: ordered.checked, type: type.value === known.type ? null : type.value, brokers });
    if (results.some((one) => one.failure)) { shown.say(told(results)); return; }
    shown.close();
    toast(`${name.value} is ${topic ? "changed" : "created"} on ${results.length} ${results.length === 1 ? "broker" : "brokers"}`);
    document.dispatchEvent(new CustomEvent("changed"));
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

export function deleteTopic(name, after) {
  const typed = h("input", { autocomplete: "off", required: true });
  const button = act("Delete for ever", async () => {
    const results = await post("/api/topics/delete", { name });
    if (results.some((one) => one.failure)) { shown.say(told(results)); return; }
    shown.close();
    after();
  }, { kind: "danger" });
  button.disabled = true;
  typed.addEventListener("input", () => { button.disabled = typed.value !== name; });
  const shown = dialog(`Delete topic ${name}?`, [
    h("p", {}, "Its messages and what groups have read of it are gone from all brokers. Nothing brings them back."),
    field("Type its name to be sure", typed)], [button]);
}
