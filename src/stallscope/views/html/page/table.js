// SPDX-License-Identifier: Apache-2.0
// A table that sorts, filters, and draws only as many rows as somebody looks at.
import { h, clear } from "./dom.js";
import { percent, whole } from "./format.js";

const FIRST = 25;
const MORE = 200;

// Columns: {key, label, number, show(value, row) -> text or element, wide}. Rows are objects.
export function table({ caption, columns, rows, total, filter = true, first = FIRST }) {
  let order = { key: null, down: true };
  let shown = first;
  let wanted = "";
  const body = h("tbody");
  const status = h("p", { class: "quiet", role: "status" });
  const more = h("button", { type: "button", class: "more", on: { click: () => { shown += MORE; draw(); } } });
  const heads = columns.map((column) => head(column, (key) => {
    order = order.key === key ? { key, down: !order.down } : { key, down: Boolean(column.number) };
    draw();
  }));

  function chosen() {
    const word = wanted.toLowerCase();
    let found = rows;
    if (word) {
      found = rows.filter((row) => columns.some(
        (column) => String(row[column.key] ?? "").toLowerCase().includes(word)));
    }
    if (order.key !== null) {
      const sign = order.down ? -1 : 1;
      found = [...found].sort((a, b) => sign * compare(a[order.key], b[order.key]));
    }
    return found;
  }

  function draw() {
    const found = chosen();
    clear(body, found.slice(0, shown).map((row) => h("tr", {}, columns.map((column) => cell(column, row)))));
    heads.forEach((th, i) => {
      const mine = columns[i].key === order.key;
      th.setAttribute("aria-sort", mine ? (order.down ? "descending" : "ascending") : "none");
    });
    const all = Math.max(total ?? 0, rows.length);
    const parts = [`${whole(Math.min(shown, found.length))} of ${whole(found.length)} rows`];
    if (wanted) parts.push(`that have “${wanted}”`);
    if (all > rows.length) parts.push(`(the recording has ${whole(all)}; the page holds the first ${whole(rows.length)})`);
    clear(status, found.length > shown || wanted || all > rows.length ? parts.join(" ") : "");
    more.hidden = found.length <= shown;
    more.textContent = `Show ${whole(Math.min(MORE, found.length - shown))} more`;
  }

  const box = h("div", { class: "table" });
  if (filter && rows.length > 8) {
    const input = h("input", {
      type: "search", placeholder: "filter", "aria-label": `filter: ${caption}`,
      on: { input: () => { wanted = input.value.trim(); shown = first; draw(); } },
    });
    box.append(input);
    box.filterBy = (word) => { input.value = wanted = word; shown = first; draw(); };
  }
  box.append(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body)), status, more);
  draw();
  return box;
}

function head(column, sort) {
  return h("th", { scope: "col", class: column.number ? "number" : "" },
    h("button", { type: "button", on: { click: () => sort(column.key) } }, column.label));
}

function cell(column, row) {
  const value = row[column.key];
  const content = column.show ? column.show(value, row) : value ?? "–";
  return h("td", { class: column.number ? "number" : column.wide ? "wide" : "" }, content);
}

function compare(a, b) {
  if (typeof a === "number" || typeof b === "number") return (a ?? -Infinity) - (b ?? -Infinity);
  return String(a ?? "").localeCompare(String(b ?? ""));
}

export function bar(share) {
  return h("span", { class: "bar" },
    h("span", { class: "fill", style: { width: `${Math.min(100, (share ?? 0) * 100)}%` } }),
    h("span", { class: "label" }, percent(share)));
}

// Rows of a document's table as objects.
export function rowsOf(part) {
  if (!part || !part.rows) return [];
  return part.rows.map((row) => Object.fromEntries(part.columns.map((name, i) => [name, row[i]])));
}
