// SPDX-License-Identifier: Apache-2.0
import { colour, drawing, figure, series, tooltip } from "../chart.js";
import { add, h } from "../dom.js";
import { bytes, count, percent, short, whole, words } from "../format.js";
import { term } from "../glossary.js";
import { sentence, toObject, toPart } from "../links.js";
import { bar, rowsOf, table } from "../table.js";

export default { id: "overview", title: "Verdict", render };

function render(panel, found) {
  const { verdict, parts } = found;
  add(panel, [
    h("div", { class: "verdict" },
      h("h2", { id: "verdict" }, sentence(verdict.headline)),
      h("ul", {}, verdict.sentences.map((pieces) => h("li", {}, sentence(pieces))))),
    advice(parts.advice),
    cards(found),
    breakdown(parts.time),
    states(parts.objects),
    tops(parts.objects),
    levels(parts.objects),
    leftOut(found),
  ]);
}

function card(label, value, note) {
  return h("div", { class: "card" }, h("span", { class: "value" }, value), h("span", { class: "label" }, label),
    note ? h("span", { class: "quiet" }, note) : null);
}

function cards({ info, parts, live }) {
  const { objects, time, pages } = parts;
  const found = [];
  if (time && !time.missing) {
    found.push(card(term("CPI", "cycles per instruction"), time.cpi.toFixed(2), `${time.completion_cpi.toFixed(2)} without stalls`));
    found.push(card("of all cycles stall", percent(time.stall_cycles / time.cycles), `${count(time.stall_cycles)} of ${count(time.cycles)}`));
  }
  if (live && !objects.missing) {
    found.push(card(term("sample", "samples wait for memory"), percent(objects.waiting / Math.max(1, objects.samples)), `${whole(objects.waiting)} of ${whole(objects.samples)}`));
  } else if (!objects.missing) {
    found.push(card([term("miss", "misses"), ` of ${objects.level}`], count(objects.misses), `${objects.total} objects`));
  }
  if (pages && !pages.missing) found.push(card(term("footprint"), bytes(pages.footprint_bytes), `${whole(pages.footprint_pages)} pages`));
  if (info.allocations) found.push(card("heap blocks", count(info.allocations), `${count(info.frees)} freed`));
  return h("div", { class: "cards" }, found);
}

function advice(part) {
  if (!part || part.missing || !part.rows.length) return null;
  const rows = rowsOf(part);
  return h("section", { "aria-labelledby": "advice" }, h("h3", { id: "advice" }, "What to change"),
    h("ol", { class: "advice" }, rows.slice(0, 8).map((row) => h("li", {},
      h("p", {}, h("strong", {}, words(String(row.kind))), " of ", toObject(String(row.object ?? ""), short(String(row.object ?? ""), 60)),
        row.where ? `, ${row.where}` : "", ": saves ", h("strong", {}, percent(row.predicted_share)), " of the cycles by replay."),
      h("p", {}, String(row.how ?? ""))))));
}

function breakdown(time) {
  if (!time || time.missing || !time.cycles) return null;
  const pieces = [{ name: "work", cycles: time.completion_cycles, tint: "work" },
    ...time.causes.map((row, i) => ({ name: words(row.cause), cycles: row.cycles, tint: `series-${i + 1}` }))]
    .filter((piece) => piece.cycles / time.cycles > 0.002);
  return h("section", { "aria-labelledby": "cycles" }, h("h3", { id: "cycles" }, "Where the cycles go"),
    h("div", { class: "stack", role: "img", "aria-label": pieces.map((p) => `${p.name} ${percent(p.cycles / time.cycles)}`).join(", ") },
      pieces.map((p) => h("span", { style: { width: `${(100 * p.cycles) / time.cycles}%`, background: `var(--${p.tint})` } }))),
    h("ul", { class: "legend" }, pieces.map((p) => h("li", {},
      h("span", { class: "swatch", style: { background: `var(--${p.tint})` } }), `${p.name} ${percent(p.cycles / time.cycles)}`))),
    h("p", { class: "quiet" }, "The whole bar is the run; all but work is ", term("stall", "stalled"), ". ", toPart("time", "Over time"), "."));
}

function states(objects) {
  if (!objects || objects.missing || !objects.states) return null;
  return h("section", { "aria-labelledby": "states" }, h("h3", { id: "states" }, "What the samples found"),
    table({ caption: "samples by what the program was doing", filter: false, rows: objects.states, columns: [
      { key: "state", label: "state" }, { key: "samples", label: "samples", number: true, show: whole },
      { key: "share", label: "share", number: true, show: bar }] }),
    objects.threads.length > 1 ? table({ caption: "by thread", rows: objects.threads, columns: [
      { key: "thread", label: "thread" }, { key: "samples", label: "samples", number: true, show: whole },
      { key: "memory", label: "waiting", number: true, show: whole }, { key: "share", label: "share", number: true, show: bar }] }) : null);
}

function tops(objects) {
  if (!objects || objects.missing || !objects.rows.length) return null;
  const rows = rowsOf(objects).slice(0, 8);
  return h("section", { "aria-labelledby": "top" }, h("h3", { id: "top" }, "What is waited for"),
    figure({
      label: "Objects by the time waited for them.",
      reading: ["A long bar is an ", term("object"), " worth a look; all of them are in ", toPart("objects", "Objects"), "."],
      picture: drawing({ label: rows.map((r) => `${short(r.object)} ${percent(r.latency_share)}`).join(", "), height: 40 + rows.length * 30,
        option: () => bars(rows), onClick: (e) => { location.hash = `objects/${encodeURIComponent(rows[e.dataIndex].object)}`; } }),
      fallback: table({ caption: "objects by the time waited for them", filter: false, rows, columns: [
        { key: "object", label: "object", wide: true, show: (name) => toObject(name) }, { key: "latency_share", label: "share", number: true, show: bar }] }),
    }));
}

export function bars(rows) {
  return {
    grid: { left: 8, right: 48, top: 4, bottom: 24, containLabel: true },
    tooltip: tooltip((e) => `${rows[e.dataIndex].object}\n${percent(rows[e.dataIndex].latency_share)} of the waiting`),
    xAxis: { type: "value", axisLabel: { color: colour("ink"), formatter: (v) => `${v}%` }, splitLine: { lineStyle: { color: colour("line") } } },
    yAxis: { type: "category", inverse: true, data: rows.map((row) => short(row.object, 34)), axisLabel: { color: colour("ink"), width: 220, overflow: "truncate" }, axisLine: { lineStyle: { color: colour("line") } } },
    series: [{ type: "bar", data: rows.map((row) => +(row.latency_share * 100).toFixed(2)), itemStyle: { color: series(0) },
      label: { show: true, position: "right", color: colour("ink"), formatter: (e) => `${e.value.toFixed(1)}%` } }],
  };
}

function levels(objects) {
  if (!objects || objects.missing || !objects.levels.length) return null;
  return h("section", { "aria-labelledby": "levels" }, h("h3", { id: "levels" }, "Caches and TLBs"),
    table({ caption: `levels of the machine ${objects.machine}`, filter: false, rows: objects.levels, columns: [
      { key: "level", label: "level" }, { key: "accesses", label: "accesses", number: true, show: whole },
      { key: "misses", label: "misses", number: true, show: whole },
      { key: "hit_ratio", label: "miss ratio", number: true, show: (v) => percent(1 - v) },
      { key: "evictions", label: "evictions", number: true, show: whole }] }));
}

function leftOut(found) {
  const quality = found.info.quality.filter((row) => row.severity && row.severity !== "info");
  return h("section", { "aria-labelledby": "left" }, h("h3", { id: "left" }, "What to keep in mind"),
    h("ul", {},
      quality.map((row) => h("li", {}, String(row.text ?? row.explanation ?? row.what ?? JSON.stringify(row)))),
      found.left_out.map((text) => h("li", {}, `Left out of this page: ${text}.`)),
      !found.live ? h("li", {}, "Numbers come from a simulated machine: the same recording gives the same numbers, every time.")
        : h("li", {}, "Numbers are samples of a run at native speed: shares of time, not counts."),
      found.info.complete ? null : h("li", {}, "The recording is not complete.")));
}

