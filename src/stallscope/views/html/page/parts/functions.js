// SPDX-License-Identifier: Apache-2.0
import { add, clear, h } from "../dom.js";
import { percent, whole } from "../format.js";
import { missing, toFunction, toLine, toObject } from "../links.js";
import { bar, rowsOf, table } from "../table.js";

export default { id: "functions", title: "Code", data: "functions", render };

function render(panel, found) {
  const { functions, lines, objects } = found.parts;
  add(panel, [h("h2", {}, "Which code waits")]);
  if (functions.missing) {
    add(panel, [missing(functions)]);
    return {};
  }
  const number = found.live ? { key: "sampled", label: "samples", number: true, show: whole } : { key: "misses", label: "misses", number: true, show: whole };
  const measures = [{ key: "latency_share", label: "of the waiting", number: true, show: bar }, number];
  const rows = rowsOf(functions);
  const byLine = rowsOf(lines);
  const crossings = rowsOf(objects.crossings);
  const detail = h("section", { class: "detail", "aria-live": "polite", hidden: true });
  add(panel, [
    detail,
    h("h3", {}, "Functions"),
    table({ caption: "functions by the time they wait", rows, total: functions.total, columns: [
      { key: "function", label: "function", wide: true, show: (name) => toFunction(name) }, ...measures, { key: "file", label: "file", wide: true }] }),
    h("h3", {}, "Lines"),
    table({ caption: "lines by the time they wait", rows: byLine, total: lines.total, columns: [
      { key: "line", label: "line", show: (line, row) => toLine(row.file, line) },
      { key: "function", label: "function", wide: true, show: (name) => toFunction(name) }, ...measures] }),
  ]);
  const focus = (name) => {
    const row = rows.find((one) => one.function === name);
    const own = byLine.filter((one) => one.function === name);
    const data = crossings.filter((one) => one.function === name);
    detail.hidden = false;
    clear(detail,
      h("h3", {}, name),
      h("p", {}, row ? `${percent(row.latency_share)} of the waiting` : "It is not among the rows of this page."),
      own.length ? table({ caption: `lines of ${name}`, filter: false, first: 8, rows: own, columns: [
        { key: "line", label: "line", show: (line, one) => toLine(one.file, line) }, ...measures] }) : null,
      data.length ? table({ caption: `what ${name} waits for`, filter: false, first: 8, rows: data, columns: [
        { key: "object", label: "object", wide: true, show: (text) => toObject(text) },
        { key: "line", label: "line", show: (line, one) => toLine(one.file, line) }, number] }) : null);
    detail.scrollIntoView({ block: "nearest" });
  };
  return { focus };
}
