// SPDX-License-Identifier: Apache-2.0
// A folder of recordings behind a server: the list, what is being recorded, reports and what-if.
import { add, clear, h } from "./dom.js";
import { bytes, count, percent, short, whole } from "./format.js";
import { start, theme } from "./shell.js";
import { bar, table } from "./table.js";
import { whatIf } from "./parts/whatif.js";

const EVERY = 2000; // milliseconds between two looks
const STATES = { memory: "waiting for memory", compute: "computing", kernel: "in the kernel", unknown: "unknown" };

export async function ask(path, question) {
  const options = question === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) };
  const response = await fetch(path, options);
  const answer = response.headers.get("content-type")?.startsWith("application/json")
    ? await response.json() : { error: { what: await response.text(), why: "", now: "" } };
  if (answer.error) throw Object.assign(new Error(answer.error.what), answer.error);
  return answer;
}

export function trouble(error) {
  return h("div", { class: "missing", role: "alert" }, h("p", {}, `${error.message}${error.why ? ` (${error.why})` : ""}.`),
    error.now ? h("p", {}, "Try: ", h("code", {}, error.now)) : null);
}

export function serve(root, found) {
  const name = new URLSearchParams(location.search).get("recording");
  if (name === null) list(root, found);
  else one(root, name);
}

function frame(root, title, ...content) {
  const main = h("main", { id: "main" }, content);
  clear(root, h("header", {}, h("h1", {}, title), theme()), main);
  return main;
}

function link(name) {
  return h("a", { href: `?recording=${encodeURIComponent(name)}` }, name);
}

async function list(root, found) {
  const box = h("div");
  frame(root, `Recordings in ${found.folder}`, box);
  let before = "";
  const look = async () => {
    try {
      const rows = await ask("api/recordings");
      if (JSON.stringify(rows) !== before) {
        before = JSON.stringify(rows);
        clear(box, rows.length ? recordings(rows) : h("p", {}, "There is none yet: ", h("code", {}, "stallscope record --trace -- PROGRAM")));
      }
    } catch (error) {
      clear(box, trouble(error));
      before = "";
    }
    setTimeout(look, EVERY);
  };
  look();
}

function recordings(rows) {
  return table({ caption: "recordings, the newest first", rows, columns: [
    { key: "name", label: "recording", wide: true, show: (name, row) => (row.error ? name : link(name)) },
    { key: "state", label: "state", show: (state, row) => (row.error ? row.error : state === "done" ? "done" : h("strong", {}, "recording…")) },
    { key: "command", label: "command", wide: true, show: (words) => h("code", {}, (words ?? []).join(" ")) },
    { key: "source", label: "source" },
    { key: "instructions", label: "instructions", number: true, show: (n, row) => (row.samples ? `${whole(row.samples)} samples` : n ? count(n) : "–") },
    { key: "seconds", label: "seconds", number: true, show: (s) => (typeof s === "number" ? s.toFixed(1) : "–") },
    { key: "stream_bytes", label: "trace", number: true, show: (n) => (n ? bytes(n) : "–") }] });
}

async function one(root, name) {
  const back = h("p", {}, h("a", { href: "./" }, "← all recordings"));
  const box = h("div", { "aria-live": "polite" }, h("p", {}, "Working: a trace is replayed when it is first looked at…"));
  frame(root, name, back, box);
  try {
    const now = await ask(`api/live?name=${encodeURIComponent(name)}`);
    if (now.state !== "done") {
      live(box, name, now, () => one(root, name));
      return;
    }
    const document_ = await ask("api/report", { name });
    start(root, document_, { back, extra: [whatIf(name)] });
  } catch (error) {
    clear(box, trouble(error));
  }
}

function live(box, name, first, done) {
  const draw = (now) => clear(box, progress(now));
  draw(first);
  const look = async () => {
    try {
      if (first.source !== "valgrind") await ask("api/look", { name });
      const now = await ask(`api/live?name=${encodeURIComponent(name)}`);
      if (now.state === "done") return done();
      draw(now);
    } catch (error) {
      clear(box, trouble(error));
    }
    return setTimeout(look, EVERY);
  };
  look();
}

function card(label, value) {
  return h("div", { class: "card" }, h("span", { class: "value" }, value), h("span", { class: "label" }, label));
}

function progress(now) {
  const sampled = now.source !== "valgrind";
  const cards = [card("seconds", now.seconds.toFixed(0))];
  if (!sampled) cards.push(card("of trace", bytes(now.stream_bytes)));
  for (const { state, share } of now.states ?? []) if (share) cards.push(card(STATES[state], percent(share)));
  for (const [key, label] of [["samples", "samples"], ["instructions", "instructions"], ["loads", "loads"], ["stores", "stores"], ["allocations", "heap blocks"], ["threads", "threads"]]) {
    if (now[key]) cards.push(card(label, count(now[key])));
  }
  return add(h("div", {}), [
    h("h2", {}, "Recording… ", h("code", {}, now.command.join(" "))),
    h("div", { class: "cards" }, cards),
    now.objects?.length ? [
      h("h3", {}, "Objects so far"),
      table({ caption: "objects by the time waited for them, so far", rows: now.objects, filter: false, columns: [
        { key: "object", label: "object", wide: true, show: (text) => h("span", { title: text }, short(text, 70)) },
        { key: "latency_share", label: "of the waiting", number: true, show: bar },
        sampled ? { key: "sampled", label: "samples", number: true, show: whole } : { key: "misses", label: "misses", number: true, show: whole },
        { key: "blocks", label: "blocks", number: true, show: (n) => (n === null ? "–" : whole(n)) },
        { key: "bytes", label: "size", number: true, show: (n) => (n === null ? "–" : bytes(n)) }] }),
      now.levels.length ? h("h3", {}, "Caches and TLBs so far") : null,
      now.levels.length ? table({ caption: "levels", rows: now.levels, filter: false, columns: [
        { key: "level", label: "level" }, { key: "accesses", label: "accesses", number: true, show: whole },
        { key: "misses", label: "misses", number: true, show: whole }, { key: "hit_ratio", label: "miss ratio", number: true, show: (v) => percent(1 - v) }] }) : null]
      : h("p", { class: "quiet" }, sampled ? "Objects fill up here as soon as samples wait for them."
        : "Objects fill up here when the recording keeps a trace (record --trace)."),
  ]);
}
