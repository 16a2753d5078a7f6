import { change, choices, clear, count, field, h, head, card, later, link, live, main, none, pager, perSecond, select, Table, trouble, when } from "./core.js";
import { spark } from "./chart.js";
import { editTopic } from "./topic_form.js";

const failed = h("div");
const table = new Table([
  { title: "Topic", kind: "wide", cell: (t) => h("a", { href: link("/topic", { name: t.name }) }, t.name), sign: (t) => t.name },
  { title: "In", kind: "number", cell: (t) => perSecond(t.rate) },
  { title: "", cell: (t) => spark(t.points, "its rate lately"), sign: (t) => t.points.join() },
  { title: "Messages", kind: "number", cell: (t) => count(t.messages) },
  { title: "Last one", cell: (t) => (t.last ? when(t.last) : none) },
  { title: "Queues", kind: "number", cell: (t) => count(t.queues) },
  { title: "Perm", cell: (t) => t.perm },
  { title: "Groups", kind: "number", cell: (t) => count(t.groups) },
  { title: "Brokers", cell: (t) => t.brokers.join(", ") },
], { key: (t) => t.name, holds: true, caption: "Topics", empty: "No topic is so. Change the filter, or create one." });
const pages = pager((by) => list.set({ page: Number(list.state.page) + by }));
const list = choices({ filter: "", kind: "normal", sort: "name", page: 1 }, (state) => { table.free(); view.change(state); });
const filter = h("input", { type: "search", value: list.state.filter, placeholder: "part of the name", oninput: later(() => list.set({ filter: filter.value, page: 1 })) });
const kind = select({ normal: "Topics", retry: "Retry topics", dead: "Dead-letter topics", system: "Brokers' own", all: "All" }, list.state.kind,
  { onchange: () => list.set({ kind: kind.value, page: 1 }) });
const sort = select({ name: "Name", rate: "Rate", messages: "Messages", last: "Last message" }, list.state.sort, { onchange: () => list.set({ sort: sort.value, page: 1 }) });
main.append(head("Topics", change(h("button", { type: "button", class: "primary", id: "new-topic", onclick: () => editTopic(null) }, "New topic"))), failed,
  h("div", { class: "toolbar" }, field("Filter", filter), field("Show", kind), field("Sort by", sort)), card(null, table.node, pages.node));
const isNarrowed = () => list.state.filter || list.state.kind !== "normal";
const view = live("topics", list.state, (shown) => { clear(failed); table.say(isNarrowed() ? "No topic is so. Change the filter, or create one." : "There is no topic yet. Create one, or send a first message to it."); table.update(shown.rows); pages.update(shown); }, (error) => clear(failed, trouble(error)));
