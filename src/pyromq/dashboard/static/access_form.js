// Creating, changing and deleting an account; the addresses that need none.
import { act, confirmed, dialog, field, get, h, post, select, toast, told } from "./core.js";

const WORDS = { "PUB|SUB": "PUB|SUB", PUB: "PUB", SUB: "SUB", DENY: "DENY" };
const brokersOf = (results) => `${results.length} ${results.length === 1 ? "broker" : "brokers"}`;

// Orders go to every broker of a cluster; which one is asked only where there are several.
function whichCluster(clusters) {
  const cluster = select({ "": "all", ...Object.fromEntries(clusters.map((one) => [one, one])) }, "");
  return { cluster, node: clusters.length > 1 && field("Clusters", cluster) };
}
// Lines of name and permission, with names that there are to choose from
function lines(title, what, known, names) {
  const list = h("datalist", { id: `names-${what}` });
  const rows = h("div", { class: "lines" });
  const add = (name = "", word = "") => {
    const row = h("div", { class: "line-row" },
      h("input", { value: name, required: true, list: list.id, autocomplete: "off", pattern: "[^=,\\s]+", placeholder: `name of a ${what}`, "aria-label": `Name of a ${what}` }),
      select(WORDS, word || "SUB", { "aria-label": `What it may do with that ${what}` }),
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this line", onclick: () => { const next = row.nextElementSibling ?? row.previousElementSibling; row.remove(); (next?.querySelector("input") ?? more).focus(); } }, "✕"));
    rows.append(row);
    return row;
  };
  const more = h("button", { type: "button", class: "quiet", onclick: () => add().querySelector("input").focus() }, `Add a ${what}`);
  known.forEach((line) => { const at = line.lastIndexOf("="); add(line.slice(0, at), line.slice(at + 1)); });
  names().then((found) => list.append(...found.map((one) => h("option", { value: one })))).catch(() => {});
  return { node: h("fieldset", {}, h("legend", {}, title), list, rows, more),
    read: () => [...rows.children].map((row) => `${row.querySelector("input").value.trim()}=${row.querySelector("select").value}`) };
}
const names = (path) => async () => (await get(path, { size: 200 })).rows.map((one) => one.name);
const standard = (value) => select(value ? WORDS : { "": "not said (DENY)", ...WORDS }, value);
const lineWords = (what, lines) => (lines.length ? [`${what}: ${lines.join(", ")}.`] : []);
async function saved(shown, results, words, after) {
  if (results.some((one) => one.failure)) { shown.say(told(results)); await after(); return; }
  shown.close();
  toast(`${words} on ${brokersOf(results)}`);
  await after();
}

export function editAccount(account, { clusters, taken }, after) {
  const name = h("input", { name: "name", required: true, minlength: 7, maxlength: 255, value: account?.name ?? "", readonly: Boolean(account), autocomplete: "off", spellcheck: "false" });
  const secret = () => h("input", { type: "password", required: true, minlength: 7, maxlength: 1024, autocomplete: "new-password" });
  const first = secret();
  const again = secret();
  const same = () => again.setCustomValidity(first.value === again.value ? "" : "The two are not the same.");
  const free = () => name.setCustomValidity(!account && taken.has(name.value.trim()) ? "There is an account of this name: change it in the list." : "");
  first.addEventListener("input", same);
  again.addEventListener("input", same);
  name.addEventListener("input", free);
  const isAdmin = h("input", { type: "checkbox", checked: account?.isAdmin ?? false });
  const white = h("input", { value: account?.white ?? "", autocomplete: "off", spellcheck: "false", placeholder: "10.0.7.*" });
  const topicPerm = standard(account ? account.topicPerm : "DENY");
  const groupPerm = standard(account ? account.groupPerm : "DENY");
  const topics = lines("Topics", "topic", account?.topicPerms ?? [], names("/api/topics"));
  const groups = lines("Groups", "group", account?.groupPerms ?? [], names("/api/groups"));
  const { cluster, node } = whichCluster(clusters);
  const save = act(account ? "Save" : "Create", async () => {
    const order = { name: name.value.trim(), secret: first.value, isAdmin: isAdmin.checked, white: white.value.trim(), topicPerm: topicPerm.value, groupPerm: groupPerm.value,
      topicPerms: topics.read(), groupPerms: groups.read(), cluster: cluster.value };
    // Brokers keep lines when none are sent: an account that is to have none is made anew.
    order.anew = Boolean(account) && ((account.topicPerms.length > 0 && !order.topicPerms.length) || (account.groupPerms.length > 0 && !order.groupPerms.length));
    const store = async () => saved(shown, await post("/api/access/put", order), `${order.name} is ${account ? "changed" : "created"}`, after);
    if (!account) { await store(); return; }
    const gone = (before, now) => before.filter((one) => !now.includes(one));
    confirmed(`Change account ${account.name}?`, { verb: "Save", lost: [
      "The secret that it has, if you typed another one: clients with the old one are refused at once, and nobody can read it any more.",
      account.isAdmin && !order.isAdmin && "That it is an administrator.",
      ...lineWords("Lines for topics", gone(account.topicPerms, order.topicPerms)), ...lineWords("Lines for groups", gone(account.groupPerms, order.groupPerms)),
      order.anew && "The account itself, for a moment: it is deleted and made anew, and its clients may be refused meanwhile.",
    ] }, store);
  });
  const shown = dialog(account ? `Change ${account.name}` : "New account", [
    field("Name (access key)", name, account ? null : "7 characters or more"),
    h("div", { class: "pair" }, field("Secret", first, account ? "The one it has, or a new one: brokers take no change without it" : "7 characters or more"), field("Secret once more", again)),
    account && h("p", { class: "facts" }, "With another secret, clients that have the old one are refused at once."),
    h("label", { class: "check" }, isAdmin, "Administrator: may change topics, groups and accounts"),
    h("div", { class: "pair" }, field("Topics by default", topicPerm), field("Groups by default", groupPerm)),
    topics.node, groups.node,
    field("Trusted addresses", white, "From there the name alone will do. Empty: none"),
    node,
  ], [save]);
  (account ? first : name).focus();
}

export function deleteAccount(account, { clusters }, after) {
  const { cluster, node } = whichCluster(clusters);
  confirmed(`Delete account ${account.name}?`, { verb: "Delete the account", typed: account.name, more: node, lost: [
    `Its secret, which is kept nowhere else: clients that use it are refused at once, on ${account.brokers.join(", ")}.`,
    account.isAdmin && "An administrator: who signs as it changes nothing any more.",
    ...lineWords("What it may do with topics", account.topicPerms), ...lineWords("What it may do with groups", account.groupPerms),
  ] }, async () => {
    const results = await post("/api/access/delete", { name: account.name, cluster: cluster.value });
    await after();
    if (!results.some((one) => one.failure)) toast(`${account.name} is deleted on ${brokersOf(results)}`);
    return results;
  });
}

export function editWhiteList(brokers, { clusters }, after) {
  const known = [...new Set(brokers.flatMap((one) => one.white))];
  const differs = new Set(brokers.filter((one) => !one.failure).map((one) => [...one.white].sort().join())).size > 1;
  const text = h("textarea", { rows: 6, spellcheck: "false", placeholder: "10.0.7.*" });
  text.value = known.join("\n");
  const { cluster, node } = whichCluster(clusters);
  const save = act("Save", async () => {
    const addresses = text.value.split("\n").map((one) => one.trim()).filter(Boolean);
    const store = async () => saved(shown, await post("/api/access/white", { addresses, cluster: cluster.value }), addresses.length ? "The list is changed" : "The list is empty", after);
    const gone = known.filter((one) => !addresses.includes(one));
    if (!gone.length) { await store(); return; }
    confirmed("Take addresses from the list?", { verb: "Save", heading: "What this takes away", lost: [
      `What ${gone.join(", ")} may do: who asks from there without an account is refused at once, this dashboard too if it is there.`,
    ] }, store);
  });
  const shown = dialog("Addresses that need no account", [
    h("p", { class: "facts" }, "Whoever asks from one of these may do everything, without account and secret."),
    differs && h("p", { class: "warm" }, "Brokers have different lists; this is all of them together, and all get what you save."),
    field("One address in a line", text, "192.168.1.7, 192.168.*.*, 192.168.10-20.*, the same in IPv6; * is everybody. Empty: nobody"),
    node,
  ], [save]);
  text.focus();
}
