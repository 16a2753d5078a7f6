import { card, choices, clear, count, field, h, head, later, link, live, main, pager, select, Table, trouble, when } from "./core.js";
import { showMember } from "./running.js";

const failed = h("div");
const note = h("p", { class: "facts" });
const isConsumer = () => list.state.role !== "producer";
const common = [
  { title: "Client", kind: "wide", cell: (c) => h("code", {}, c.client), sign: (c) => c.client },
  { title: "Group", kind: "wide", cell: (c) => (isConsumer() ? h("a", { href: link("/group", { name: c.group }) }, c.group) : c.group), sign: (c) => c.group },
  { title: "Address", cell: (c) => c.address },
  { title: "Language", cell: (c) => c.language },
  { title: "Version", cell: (c) => c.version },
];
const shape = { key: (c) => `${c.group} ${c.client}`, caption: "Clients", empty: "No client is connected that is so.", holds: true };
const consumers = new Table([...common,
  { title: "Model", cell: (c) => (c.model ?? "").toLowerCase() },
  { title: "Brokers", cell: (c) => c.brokers.join(", ") },
  { title: "", kind: "deeds", cell: (c) => h("button", { type: "button", class: "quiet", onclick: () => showMember(c.group, c.client) }, "Look"), sign: (c) => c.client },
], shape);
const producers = new Table([...common, { title: "Heard of", cell: (c) => (c.last ? when(c.last) : "") }], shape);
const pages = pager((by) => list.set({ page: Number(list.state.page) + by }));
const list = choices({ filter: "", role: "consumer", page: 1 }, (state) => view.change(state));
const filter = h("input", { type: "search", value: list.state.filter, placeholder: "client, group or address", oninput: later(() => list.set({ filter: filter.value, page: 1 })) });
const role = select({ consumer: "Consumers", producer: "Producers" }, list.state.role, { onchange: () => list.set({ role: role.value, page: 1 }) });
main.append(head("Clients"), failed, h("div", { class: "toolbar" }, field("Show", role), field("Filter", filter)), note, card(null, consumers.node, producers.node, pages.node));
const view = live("clients", list.state, (shown) => {
  clear(failed, shown.missing && trouble({ message: `No broker lists its producers. ${shown.troubles.join("; ")}`, next: "Brokers from 4.9.3 on do (request 328)." }));
  clear(note, shown.unseen && isConsumer() ? `${count(shown.unseen)} groups have not been looked at yet; they come within the next rounds.` : "");
  const table = isConsumer() ? consumers : producers;
  consumers.node.hidden = !isConsumer();
  producers.node.hidden = isConsumer();
  table.update(shown.rows);
  pages.update(shown);
}, (error) => clear(failed, trouble(error)));
