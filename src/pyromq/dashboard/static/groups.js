import { card, change, choices, clear, count, field, h, head, later, link, live, main, pager, perSecond, select, Table, trouble } from "./core.js";
import { spark } from "./chart.js";
import { editGroup } from "./group_form.js";

const failed = h("div");
const members = (g) => (g.members === null ? "…" : g.members ? h("span", { class: "good" }, count(g.members)) : h("span", { class: "faint" }, "offline"));
const table = new Table([
  { title: "Group", kind: "wide", cell: (g) => h("a", { href: link("/group", { name: g.name }) }, g.name), sign: (g) => g.name },
  { title: "Lag", kind: "number", cell: (g) => h("b", { class: g.lag ? "warm" : "faint" }, count(g.lag)), sign: (g) => g.lag },
  { title: "", cell: (g) => spark(g.points, "its lag lately"), sign: (g) => g.points.join() },
  { title: "Reads", kind: "number", cell: (g) => perSecond(g.rate) },
  { title: "Members", kind: "number", cell: members, sign: (g) => g.members },
  { title: "Topics", kind: "number", cell: (g) => count(g.topics) },
  { title: "Dead letters", kind: "number", cell: (g) => (g.deadLetters ? h("a", { href: link("/dead-letters", { group: g.name }) }, count(g.deadLetters)) : "0"), sign: (g) => g.deadLetters },
  { title: "", cell: (g) => (g.conflict ? h("span", { class: "badge bad" }, "members differ") : ""), sign: (g) => g.conflict },
], { key: (g) => g.name, holds: true, caption: "Groups", empty: "No group is so. Change the filter, or create one." });
const pages = pager((by) => list.set({ page: Number(list.state.page) + by }));
const list = choices({ filter: "", state: "all", kind: "normal", sort: "name", page: 1 }, (state) => { table.free(); view.change(state); });
const filter = h("input", { type: "search", value: list.state.filter, placeholder: "part of the name", oninput: later(() => list.set({ filter: filter.value, page: 1 })) });
const state = select({ all: "All", online: "Online", offline: "Offline", behind: "Behind" }, list.state.state, { onchange: () => list.set({ state: state.value, page: 1 }) });
const kind = select({ normal: "Groups", system: "Brokers' own", all: "All" }, list.state.kind, { onchange: () => list.set({ kind: kind.value, page: 1 }) });
const sort = select({ name: "Name", lag: "Lag", rate: "Rate", members: "Members" }, list.state.sort, { onchange: () => list.set({ sort: sort.value, page: 1 }) });
main.append(head("Groups", change(h("button", { type: "button", class: "primary", id: "new-group", onclick: () => editGroup(null) }, "New group"))), failed,
  h("div", { class: "toolbar" }, field("Filter", filter), field("State", state), field("Show", kind), field("Sort by", sort)), card(null, table.node, pages.node));
const isNarrowed = () => list.state.filter || list.state.kind !== "normal" || list.state.state !== "all";
const view = live("groups", list.state, (shown) => { clear(failed); table.say(isNarrowed() ? "No group is so. Change the filter, or create one." : "There is no group yet. One appears with its first consumer, or create it."); table.update(shown.rows); pages.update(shown); }, (error) => clear(failed, trouble(error)));
