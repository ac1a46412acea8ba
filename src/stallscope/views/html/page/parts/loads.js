// SPDX-License-Identifier: Apache-2.0
import { colour, drawing, figure, series, tooltip } from "../chart.js";
import { add, h } from "../dom.js";
import { base, percent, short, whole } from "../format.js";
import { term } from "../glossary.js";
import { missing, toFunction, toLine, toObject } from "../links.js";
import { bar, rowsOf, table } from "../table.js";

export default { id: "loads", title: "Loads", data: "loads", render };

const KINDS = ["stride", "indirect", "chase", "walk", "irregular"];

function render(panel, found) {
  const part = found.parts.loads;
  add(panel, [h("h2", {}, "The few loads that cause most misses")]);
  if (part.missing) return add(panel, [missing(part)]) && {};
  const rows = rowsOf(part);
  add(panel, [
    h("p", {}, `${whole(part.covering)} of ${whole(part.total)} loads have 90% of the misses of ${part.level}. Those marked primary or secondary are `, term("delinquent load", "delinquent"), "."),
    rows.length ? picture(rows.slice(0, 12)) : null,
    table({ caption: "loads by misses", rows, total: part.total, first: 12, columns: [
      { key: "line", label: "line", show: (line, row) => toLine(row.file, line) },
      { key: "function", label: "function", wide: true, show: (name) => toFunction(name) },
      { key: "object", label: "waits for", wide: true, show: (name) => toObject(name) },
      { key: "share", label: "of the misses", number: true, show: bar },
      { key: "kind", label: "addresses" }, { key: "delinquent", label: "delinquent" }] }),
    slices(part.slices)]);
  return {};
}

function picture(rows) {
  const name = (row) => (row.file ? `${base(row.file)}:${row.line ?? "?"}` : short(row.function, 28));
  return figure({
    label: "Loads by their share of the misses.",
    reading: ["The colour tells how addresses come about: a stride is easy to fetch early, a chase (a list) is hard."],
    picture: [
      h("ul", { class: "legend" }, KINDS.map((kind, i) => h("li", {}, h("span", { class: "swatch", style: { background: `var(--series-${i + 1})` } }), kind))),
      drawing({ label: rows.map((row) => `${name(row)} ${percent(row.share)}`).join(", "), height: 40 + rows.length * 28, option: () => ({
        grid: { left: 8, right: 48, top: 4, bottom: 24, containLabel: true },
        tooltip: tooltip((e) => `${rows[e.dataIndex].function} ${name(rows[e.dataIndex])}\n${rows[e.dataIndex].object}\n${rows[e.dataIndex].kind}, ${percent(rows[e.dataIndex].share)} of the misses`),
        xAxis: { type: "value", axisLabel: { color: colour("ink"), formatter: (v) => `${v}%` }, splitLine: { lineStyle: { color: colour("line") } } },
        yAxis: { type: "category", inverse: true, data: rows.map(name), axisLabel: { color: colour("ink"), width: 180, overflow: "truncate" } },
        series: [{ type: "bar", data: rows.map((row) => ({ value: +(row.share * 100).toFixed(2), itemStyle: { color: series(Math.max(0, KINDS.indexOf(row.kind))) } })),
          label: { show: true, position: "right", color: colour("ink"), formatter: (e) => `${e.value.toFixed(1)}%` } }],
      }) })],
  });
}

function slices(part) {
  if (part.missing) return [h("h3", {}, "Slices"), missing(part)];
  return [h("h3", {}, "Slices"),
    h("p", {}, "A ", term("slice"), " is just the code that computes a load's address; run ahead, it fetches the data early."),
    part.rows.length ? null : h("p", { class: "quiet" }, "No load is delinquent enough for one."),
    part.rows.map((row) => h("details", { open: row === part.rows[0] },
      h("summary", {}, `${row.function} (${row.file ? base(row.file) : ""}:${row.line ?? "?"}), ${row.class}, ${percent(row.share)} of the misses`),
      row.reason ? h("p", {}, `There is none: ${row.reason}.`) : null,
      row.assembly.length ? h("pre", { tabindex: "0" }, h("code", {}, row.assembly.map((one) => `${one.address.toString(16)}  ${one.text}${one.note ? `    ; ${one.note}` : ""}`).join("\n"))) : null,
      row.c ? h("pre", { tabindex: "0" }, h("code", {}, row.c)) : null))];
}
