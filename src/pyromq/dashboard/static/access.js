import { act, card, change, clear, count, get, h, head, isReadOnly, main, none, still, Table, trouble } from "./core.js";
import { deleteAccount, editAccount, editWhiteList } from "./access_form.js";

still();
let latest = null;
const failed = h("div");
const known = () => ({ clusters: latest.clusters, taken: new Set(latest.rows.map((one) => one.name)) });
// An administrator without lines of its own may do everything.
const standard = (a, perm) => perm || (a.isAdmin && !a.topicPerms.length && !a.groupPerms.length ? "everything" : "DENY");
const perms = (lines, otherwise) => h("span", { class: "perms" }, lines.map((one) => h("code", {}, one)), h("span", { class: "faint" }, lines.length ? `otherwise ${otherwise}` : otherwise));
function changes(a) {
  if (a.name === latest.own) return h("span", { class: "faint", title: "It would shut itself out half-way: use another account, or `pyromq admin`" }, "not from here");
  return [h("button", { type: "button", class: "quiet", "aria-label": `Change ${a.name}`, onclick: () => editAccount(a, known(), load) }, "Change"), " ",
    h("button", { type: "button", class: "quiet danger", "aria-label": `Delete ${a.name}`, onclick: () => deleteAccount(a, known(), load) }, "Delete")];
}
const accounts = new Table([
  { title: "Account", cell: (a) => [h("b", {}, a.name), " ", a.differs && h("span", { class: "badge bad" }, "differs between brokers"), a.name === latest.own && h("span", { class: "badge", title: "The dashboard asks brokers as this account" }, "this dashboard")], sign: (a) => `${a.name}${a.differs}${latest.own}` },
  { title: "Role", cell: (a) => h("span", { class: a.isAdmin ? "badge master" : "badge" }, a.isAdmin ? "administrator" : "user"), sign: (a) => a.isAdmin },
  { title: "Topics", kind: "wide", cell: (a) => perms(a.topicPerms, standard(a, a.topicPerm)), sign: (a) => JSON.stringify(a) },
  { title: "Groups", kind: "wide", cell: (a) => perms(a.groupPerms, standard(a, a.groupPerm)), sign: (a) => JSON.stringify(a) },
  { title: "Trusted addresses", cell: (a) => a.white || none },
  { title: "Brokers", cell: (a) => a.brokers.join(", ") },
  ...(isReadOnly ? [] : [{ title: "", kind: "deeds", cell: changes, sign: (a) => JSON.stringify([a, latest.own]) }]),
], { key: (a) => `${a.name} ${a.brokers.join()}`, caption: "Accounts", empty: "No broker has an account: whoever reaches one may do everything." });
const brokers = new Table([
  { title: "Broker", cell: (b) => h("b", {}, b.broker), sign: (b) => b.broker },
  { title: "Cluster", cell: (b) => b.cluster },
  { title: "Address", cell: (b) => h("code", {}, b.address), sign: (b) => b.address },
  { title: "Access control", kind: "wide", cell: (b) => h("span", { class: b.failure ? "warm" : "good" }, b.failure ?? `on: ${count(b.count)} ${b.count === 1 ? "account" : "accounts"}`), sign: (b) => `${b.failure}${b.count}` },
  { title: "Need no account", kind: "wide", cell: (b) => (b.failure ? none : b.white.length ? b.white.join(", ") : "nobody") },
], { key: (b) => b.address, caption: "Access control of each broker", empty: "No broker is there to ask." });
const hint = h("p", { class: "facts" });
const create = h("button", { type: "button", class: "primary", id: "new-account", onclick: () => editAccount(null, known(), load) }, "New account");
const open = h("button", { type: "button", id: "white-list", onclick: () => editWhiteList(latest.brokers, known(), load) }, "Addresses without account");
create.hidden = open.hidden = true;
async function load() {
  latest = await get("/api/access");
  clear(failed);
  accounts.update(latest.rows);
  brokers.update(latest.brokers);
  // Where no broker has access control there is nothing to keep an account in.
  create.hidden = open.hidden = latest.brokers.every((one) => one.failure);
  clear(hint, latest.total > latest.rows.length ? `${count(latest.total - latest.rows.length)} more are not listed. ` : "", "Secrets stay in the brokers: they are never shown.");
}
main.append(head("Access", act("Ask again", load, { kind: "quiet", say: () => failed }), change(open), change(create)), failed, hint, card("Accounts", accounts.node), card("Brokers", brokers.node));
load().catch((error) => clear(failed, trouble(error)));
