// SPDX-License-Identifier: Apache-2.0
// Another machine, or this one with a changed cache: the trace is replayed, and both are compared.
import { add, clear, h } from "../dom.js";
import { percent, short, whole } from "../format.js";
import { toObject } from "../links.js";
import { ask, trouble } from "../serve.js";
import { table } from "../table.js";

export function whatIf(name) {
  return { id: "what-if", title: "What if", render: (panel) => { render(panel, name); } };
}

async function render(panel, name) {
  const form = h("form", { class: "form" });
  const answer = h("div", { "aria-live": "polite" });
  add(panel, [h("h2", {}, "What if the machine were another?"),
    h("p", {}, "Change a cache or choose a machine; the recorded accesses are replayed on it. The program itself need not run again."), form, answer]);
  try {
    fill(form, answer, name, await ask(`api/machine?name=${encodeURIComponent(name)}`));
  } catch (error) {
    clear(form, trouble(error));
  }
}

function field(label, control) {
  return h("label", {}, h("span", {}, label), control);
}

function fill(form, answer, name, known) {
  const machine = h("select", { name: "machine" }, h("option", { value: "" }, `${known.machine} (as recorded)`),
    known.machines.map((other) => h("option", { value: other }, other)));
  const rows = known.caches.map((cache) => {
    const inputs = {
      size: h("input", { value: bytesText(cache.size), size: 8 }), ways: h("input", { value: cache.ways, size: 4, inputmode: "numeric" }),
      policy: h("select", {}, known.policies.map((policy) => h("option", { value: policy, selected: policy === cache.policy }, policy))),
    };
    return { cache, inputs, element: h("fieldset", {}, h("legend", {}, cache.name), Object.entries(inputs).map(([key, input]) => field(key, input))) };
  });
  const button = h("button", { type: "submit" }, "Replay");
  machine.addEventListener("change", () => rows.forEach((row) => { row.element.disabled = machine.value !== ""; }));
  add(form, [field("machine", machine), rows.map((row) => row.element), button]);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const changes = machine.value ? {} : changed(rows);
    button.disabled = true;
    clear(answer, h("p", {}, "Replaying…"));
    try {
      clear(answer, compare(await ask("api/what-if", { name, machine: machine.value || null, changes })));
    } catch (error) {
      clear(answer, trouble(error));
    }
    button.disabled = false;
  });
}

function changed(rows) {
  const found = {};
  for (const { cache, inputs } of rows) {
    const was = { size: bytesText(cache.size), ways: String(cache.ways), policy: cache.policy };
    for (const [key, input] of Object.entries(inputs)) {
      if (input.value.trim() !== was[key]) found[`${cache.name.toLowerCase()}.${key}`] = input.value.trim();
    }
  }
  return found;
}

function bytesText(size) {
  for (const [limit, unit] of [[1 << 20, "M"], [1 << 10, "K"]]) {
    if (size >= limit && size % limit === 0) return `${size / limit}${unit}`;
  }
  return String(size);
}

function change(before, after) {
  if (before === null || after === null) return "–";
  if (!before) return after ? "new" : "same";
  const share = (after - before) / before;
  return Math.abs(share) < 0.0005 ? "same" : `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
}

function compare({ before, after }) {
  const levels = after.levels.map((row) => {
    const old = before.levels.find((one) => one.level === row.level);
    return { level: row.level, before: old?.misses ?? null, after: row.misses };
  });
  const others = new Map(after.objects.map((row) => [row.object, row]));
  const objects = before.objects.map((row) => ({ object: row.object, before: row.latency, after: others.get(row.object)?.latency ?? null }));
  const columns = (label, show) => [
    { key: label, label, wide: label === "object", show }, { key: "before", label: "before", number: true, show: whole },
    { key: "after", label: "after", number: true, show: whole },
    { key: "change", label: "change", number: true, show: (_, row) => change(row.before, row.after) }];
  return [
    h("h3", {}, `${before.machine} → ${after.machine}`),
    before.cycles === null || after.cycles === null ? null
      : h("p", { class: "answer" }, h("strong", {}, `${change(before.cycles, after.cycles)} cycles`), `: ${whole(before.cycles)} before, ${whole(after.cycles)} after.`),
    table({ caption: "misses by level", rows: levels, filter: false, columns: columns("level") }),
    table({ caption: "cycles of latency by object", rows: objects, filter: false, columns: columns("object", (text) => toObject(text, short(text, 60))) })];
}
