import { act, bytes, card, change, choices, clear, confirmed, count, crumb, dialog, drawn, field, get, h, head, isReadOnly, later, link, live, main, many, pager, post, query, select, still, Table, time, toast, trouble, when, withZone } from "./core.js";
import { bodyView } from "./body.js";

const group = query.get("group");
const failed = h("div");
if (group) oneGroup(); else allGroups();

function allGroups() {
  const table = new Table([
    { title: "Group", kind: "wide", cell: (g) => h("a", { href: link("/dead-letters", { group: g.group }) }, g.group), sign: (g) => g.group },
    { title: "Dead letters", kind: "number", cell: (g) => count(g.count) },
    { title: "Last one", cell: (g) => (g.last ? when(g.last) : "–") },
  ], { key: (g) => g.group, holds: true, caption: "Groups with dead letters", empty: "No group has given up a message." });
  const pages = pager((by) => list.set({ page: Number(list.state.page) + by }));
  const list = choices({ filter: "", page: 1 }, (state) => { table.free(); view.change(state); });
  const filter = h("input", { type: "search", value: list.state.filter, placeholder: "part of the group's name", oninput: later(() => list.set({ filter: filter.value, page: 1 })) });
  main.append(head("Dead letters"), failed, h("div", { class: "toolbar" }, field("Filter", filter)), card(null, table.node, pages.node));
  const view = live("dead-letters", list.state, (shown) => { clear(failed); table.update(shown.rows); pages.update(shown); }, (error) => clear(failed, trouble(error)));
}

function oneGroup() {
  still();
  const chosen = new Set();
  const mended = new Map();
  const results = h("div");
  let rows = [];
  let next = null;
  const key = h("input", { autocomplete: "off" });
  const tag = h("input", { autocomplete: "off" });
  const topic = h("input", { autocomplete: "off" });
  const to = select({ group: "to this group only", topic: "to the first topic, for all groups" }, "group");
  const all = h("input", { type: "checkbox", "aria-label": "Choose all", onchange: () => { rows.forEach((one) => (all.checked ? chosen.add(one.placeId) : chosen.delete(one.placeId))); draw(); } });
  const box = (l) => h("input", { type: "checkbox", "aria-label": `Choose ${l.id}`, checked: chosen.has(l.placeId), onchange: (event) => { if (event.target.checked) chosen.add(l.placeId); else chosen.delete(l.placeId); draw(); } });
  const table = new Table([
    ...(isReadOnly ? [] : [{ title: "", cell: box, sign: (l) => chosen.has(l.placeId) }]),
    { title: withZone("Died"), cell: (l) => time(l.died) },
    { title: "Message", cell: (l) => h("button", { type: "button", class: "link", onclick: () => look(l) }, h("code", {}, l.id)), sign: (l) => l.placeId },
    { title: "First topic", cell: (l) => l.topic ?? "–" },
    { title: "Tag", cell: (l) => l.tags ?? "" },
    { title: "Keys", kind: "keys", cell: (l) => l.keys.join(" ") },
    { title: "Tries", kind: "number", cell: (l) => l.tries },
    { title: "Size", kind: "number", cell: (l) => bytes(l.size) },
    { title: "Replayed", cell: (l) => (l.replayed ? when(l.replayed) : mended.has(l.placeId) ? h("span", { class: "badge" }, "mended") : ""), sign: (l) => `${l.replayed}${mended.has(l.placeId)}` },
    { title: "Body", kind: "line", cell: (l) => l.line },
  ], { key: (l) => l.placeId, caption: "Dead letters", empty: "There is none, or none is so." });
  const replayButton = act("Replay", async () => sure([...chosen], () => replay([...chosen], false)), { kind: "primary", say: () => failed, can: () => chosen.size });
  const rehearseButton = act("Rehearse", () => replay([...chosen], true), { kind: "quiet", say: () => failed, can: () => chosen.size });
  const more = act("More", () => load(next), { kind: "quiet", say: () => failed });
  function draw() {
    table.update(rows);
    replayButton.textContent = chosen.size ? `Replay ${chosen.size}` : "Replay";
    replayButton.disabled = rehearseButton.disabled = !chosen.size;
    more.hidden = !next;
  }
  async function load(since = null) {
    clear(failed);
    const shown = await get("/api/letters", { group, key: key.value.trim(), tag: tag.value.trim(), topic: topic.value.trim(), since });
    const known = new Set(since ? rows.map((one) => one.placeId) : []);
    rows = since ? [...rows, ...shown.rows.filter((one) => !known.has(one.placeId))] : shown.rows;
    next = shown.nextSince;
    draw();
    drawn();
  }
  // What is stored once more is handled once more: no broker takes it back.
  function sure(ids, call, again = false) {
    const bodies = ids.filter((one) => mended.has(one)).length;
    const before = rows.filter((one) => ids.includes(one.placeId) && one.replayed).length;
    confirmed(`Replay ${many(ids.length, "dead letter")}?`, { verb: "Replay for good", lost: [
      to.value === "topic" ? `Every group that reads the first topic gets ${ids.length === 1 ? "it" : "them"} once more, not ${group} alone.` : `Group ${group} gets ${ids.length === 1 ? "it" : "them"} once more.`,
      `${ids.length === 1 ? "The dead letter stays where it is, and is" : "The dead letters stay where they are, and are"} marked as replayed.`,
      bodies > 0 && `${many(bodies, "body", "bodies")} mended here ${bodies === 1 ? "goes" : "go"} in place of the old.`,
      before > 0 && (again ? `${many(before, "letter")} ${before === 1 ? "was" : "were"} replayed before, and ${before === 1 ? "is" : "are"} handled twice.` : `${many(before, "letter")} ${before === 1 ? "was" : "were"} replayed before, and ${before === 1 ? "is" : "are"} skipped.`),
    ] }, call);
  }
  async function replay(ids, rehearse, { again = false, say } = {}) {
    const bodies = Object.fromEntries(ids.filter((one) => mended.has(one)).map((one) => [one, mended.get(one)]));
    const done = await post("/api/letters/replay", { group, ids, to: to.value, rehearse, again, bodies });
    outcome(done, rehearse, say);
    if (!rehearse) { ids.forEach((one) => { chosen.delete(one); mended.delete(one); }); draw(); await load(); }
  }
  function outcome(done, rehearse, say) {
    const list = new Table([
      { title: "Result", cell: (r) => h("span", { class: r.outcome === "failed" ? "bad" : r.outcome === "skipped" ? "faint" : "good" }, r.outcome.replace("-", " ")), sign: (r) => r.outcome },
      { title: "Message", cell: (r) => h("code", {}, r.messageId ?? r.id) },
      { title: "Went to", cell: (r) => (r.queue === null || r.queue === undefined ? r.destination ?? "" : `${r.destination} on ${r.broker}, queue ${r.queue}, offset ${r.offset}`) },
      { title: "", cell: (r) => (r.error ? h("span", { class: "bad" }, r.error) : r.outcome === "skipped" ? "it was replayed before" : r.isMended ? "with the mended body" : "") },
    ], { key: (r) => r.id, caption: "Results", empty: "" });
    list.update(done);
    const counts = {};
    done.forEach((one) => { counts[one.outcome] = (counts[one.outcome] ?? 0) + 1; });
    const sum = Object.entries(counts).map(([name, many]) => `${many} ${name.replace("-", " ")}`).join(", ");
    const node = card(rehearse ? "Rehearsal: nothing was stored" : "Results", h("p", { role: "status" }, sum), list.node);
    if (say) say(node); else clear(results, node);
    if (!rehearse) toast(sum, counts.failed ? "bad" : "good");
  }
  function look(letter) {
    const canMend = letter.body.text !== null && !letter.body.isCut && !isReadOnly;
    const text = h("textarea", { rows: 12, spellcheck: "false", "aria-label": "The mended body" });
    text.value = mended.get(letter.placeId) ?? letter.body.text ?? "";
    const again = h("input", { type: "checkbox" });
    const send = act("Replay it mended", async () => {
      if (text.value !== letter.body.text) mended.set(letter.placeId, text.value);
      sure([letter.placeId], () => replay([letter.placeId], false, { again: again.checked, say: (node) => shown.say(node) }), again.checked);
    });
    const keep = act("Keep for later", async () => {
      mended.set(letter.placeId, text.value);
      chosen.add(letter.placeId);
      draw();
      shown.close();
    }, { kind: "quiet" });
    const shown = dialog(`Dead letter ${letter.id}`, [
      h("p", { class: "facts" }, `First sent to ${letter.topic ?? "?"}, tried ${letter.tries} ${letter.tries === 1 ? "time" : "times"}, given up ${time(letter.died)}.`,
        letter.replayed && h("b", {}, ` It was replayed ${time(letter.replayed)}.`)),
      bodyView(letter.body),
      canMend && [h("h3", {}, "Mend and replay"), text, h("label", { class: "check" }, again, "Even if it was replayed before")],
      !canMend && !isReadOnly && h("p", { class: "faint" }, "Its body is no text, or too long to mend here; it can be replayed as it is."),
      h("details", {}, h("summary", {}, "Properties"), h("dl", {}, Object.entries(letter.properties).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
    ], canMend ? [keep, send] : [], { wide: true });
  }
  const form = h("form", { class: "toolbar" }, field("Key", key), field("Tag", tag), field("First topic", topic), act("Find", () => load(), { say: () => failed }));
  main.append(crumb("Dead letters", "/dead-letters"), head(`Dead letters of ${group}`, h("a", { class: "button", href: link("/group", { name: group }) }, "The group")), form, failed, results,
    card(null, change(h("div", { class: "bar-line" }, h("label", { class: "check" }, all, "All"), to, rehearseButton, replayButton)), table.node, more));
  draw();
  load().catch((error) => clear(failed, trouble(error)));
}
