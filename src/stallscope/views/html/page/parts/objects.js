// SPDX-License-Identifier: Apache-2.0
import { add, clear, h } from "../dom.js";
import { bytes, percent, whole } from "../format.js";
import { term } from "../glossary.js";
import { missing, toEvictions, toFunction, toLine, toObject } from "../links.js";
import { bar, rowsOf, table } from "../table.js";

export default { id: "objects", title: "Objects", data: "objects", render };

function render(panel, found) {
  const part = found.parts.objects;
  add(panel, [h("h2", {}, "Which data is waited for")]);
  if (part.missing) {
    add(panel, [missing(part)]);
    return {};
  }
  const detail = h("section", { class: "detail", "aria-live": "polite" });
  const rows = rowsOf(part);
  const crossings = rowsOf(part.crossings);
  add(panel, [
    h("p", {}, "An ", term("object"), " is a variable, or all heap blocks made at one place: ",
      "“make (a.c:3) < main (a.c:9)” was made in line 3 of make, called from line 9 of main. Its share is of the ",
      found.live ? "time waited for memory." : [term("latency"), " of all ", term("miss", "misses"), "."]),
    detail,
    table({ caption: "objects by the time waited for them", rows, total: part.total, columns: columns(found.live) }),
  ]);
  const focus = (name) => {
    const row = rows.find((one) => one.object === name);
    clear(detail, about(name, row, crossings.filter((one) => one.object === name), found));
    detail.scrollIntoView({ block: "nearest" });
  };
  if (rows.length) focus(rows[0].object);
  return { focus };
}

function columns(live) {
  return [
    { key: "object", label: "object", wide: true, show: (name) => toObject(name) },
    { key: "latency_share", label: "of the waiting", number: true, show: bar },
    live ? { key: "sampled", label: "samples", number: true, show: whole } : { key: "misses", label: "misses", number: true, show: whole },
    live ? null : { key: "latency", label: "cycles", number: true, show: whole },
    { key: "blocks", label: "blocks", number: true, show: whole },
    { key: "bytes", label: "size", number: true, show: bytes },
    { key: "type", label: "type" },
    { key: "kind", label: "kind" },
  ].filter(Boolean);
}

function about(name, row, crossings, found) {
  const facts = row ? [
    `${percent(row.latency_share)} of the waiting`,
    row.misses === null ? `${whole(row.sampled)} samples` : `${whole(row.misses)} misses`,
    row.blocks ? `${whole(row.blocks)} blocks, ${bytes(row.bytes)}` : null,
    row.type ? `type ${row.type}` : null] : ["it is not among the rows of this page"];
  return [
    h("h3", {}, name),
    h("p", {}, facts.filter(Boolean).join(" · ")),
    crossings.length ? table({ caption: "lines that wait for it", filter: false, first: 8, rows: crossings, columns: [
      { key: "line", label: "line", show: (line, one) => toLine(one.file, line) },
      { key: "function", label: "function", wide: true, show: (text) => toFunction(text) },
      { key: "share", label: "of its cost", number: true, show: bar },
      found.live ? { key: "sampled", label: "samples", number: true, show: whole } : { key: "misses", label: "misses", number: true, show: whole }] })
      : h("p", { class: "quiet" }, "Its lines are not in this page."),
    found.parts.evictions.missing ? null : h("p", {}, "Next: ", toEvictions(name)),
  ];
}
