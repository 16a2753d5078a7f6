import { act, card, clear, count, get, h, head, main, none, still, Table, trouble } from "./core.js";

still();
const failed = h("div");
const perms = (all) => (all.length ? h("span", { class: "perms" }, all.map((one) => h("code", {}, one))) : none);
// An administrator without lines of its own may do everything.
const standard = (a, perm, lines) => perm || (a.isAdmin && !lines.length ? "everything" : "DENY");
const accounts = new Table([
  { title: "Account", cell: (a) => [h("b", {}, a.name), " ", a.differs && h("span", { class: "badge bad" }, "differs between brokers")], sign: (a) => a.name + a.differs },
  { title: "Role", cell: (a) => h("span", { class: a.isAdmin ? "badge master" : "badge" }, a.isAdmin ? "administrator" : "user"), sign: (a) => a.isAdmin },
  { title: "Topics by default", cell: (a) => standard(a, a.topicPerm, a.topicPerms) },
  { title: "Topics", kind: "wide", cell: (a) => perms(a.topicPerms), sign: (a) => a.topicPerms.join() },
  { title: "Groups by default", cell: (a) => standard(a, a.groupPerm, a.groupPerms) },
  { title: "Groups", kind: "wide", cell: (a) => perms(a.groupPerms), sign: (a) => a.groupPerms.join() },
  { title: "Trusted addresses", cell: (a) => a.white || none },
  { title: "Brokers", cell: (a) => a.brokers.join(", ") },
], { key: (a) => `${a.name} ${a.brokers.join()}`, caption: "Accounts", empty: "No broker has an account: whoever reaches one may do everything." });
const brokers = new Table([
  { title: "Broker", cell: (b) => h("b", {}, b.broker), sign: (b) => b.broker },
  { title: "Address", cell: (b) => h("code", {}, b.address), sign: (b) => b.address },
  { title: "Access control", kind: "wide", cell: (b) => h("span", { class: b.failure ? "warm" : "good" }, b.failure ?? `on: ${count(b.count)} ${b.count === 1 ? "account" : "accounts"}`), sign: (b) => `${b.failure}${b.count}` },
  { title: "Need no account", cell: (b) => (b.failure ? none : b.white.length ? b.white.join(", ") : "nobody") },
], { key: (b) => b.address, caption: "Access control of each broker", empty: "No broker is there to ask." });
const hint = h("p", { class: "facts" });
async function load() {
  const shown = await get("/api/access");
  clear(failed);
  accounts.update(shown.rows);
  brokers.update(shown.brokers);
  clear(hint, shown.total > shown.rows.length ? `${count(shown.total - shown.rows.length)} more are not listed. ` : "",
    "Secrets stay in the brokers. Accounts are changed with ", h("code", {}, "pyromq admin updateAclConfig"), " and ", h("code", {}, "deleteAclConfig"), ".");
}
main.append(head("Access", act("Ask again", load, { kind: "quiet", say: () => failed })), failed, hint, card("Accounts", accounts.node), card("Brokers", brokers.node));
load().catch((error) => clear(failed, trouble(error)));
