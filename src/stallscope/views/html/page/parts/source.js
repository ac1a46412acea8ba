// SPDX-License-Identifier: Apache-2.0
import { add, clear, h } from "../dom.js";
import { base, count, percent, whole, words } from "../format.js";
import { missing, toFunction, toObject } from "../links.js";
import { rowsOf } from "../table.js";

export default { id: "source", title: "Source", data: "source", render };

const TOKEN = /(\/\/.*$|\/\*.*?(?:\*\/|$)|^\s*#\s*\w+)|("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?)|\b(\d[\w.]*)\b|\b(auto|bool|break|case|char|class|const|constexpr|continue|def|default|do|double|else|enum|extern|float|fn|for|from|func|if|impl|import|in|inline|int|let|long|match|mut|namespace|new|nullptr|NULL|pub|restrict|return|self|short|signed|sizeof|static|struct|switch|template|this|typedef|typename|union|unsigned|use|using|var|virtual|void|volatile|while)\b/g;
const CLASSES = ["comment", "text", "digit", "word"];

function render(panel, found) {
  const part = found.parts.source;
  add(panel, [h("h2", {}, "Annotated source")]);
  if (part.missing) {
    add(panel, [missing(part)]);
    return {};
  }
  const crossings = rowsOf(found.parts.objects.crossings);
  const box = h("div");
  const select = h("select", { id: "file", on: { change: () => draw(Number(select.value), null) } },
    part.files.map((file, i) => h("option", { value: i }, base(file.file))));
  add(panel, [
    h("p", {}, "Lines that wait are shaded, the darker the more. “waiting” is the share of all waiting for memory, “cycles” what the pipeline lost there. ",
      "Press a line's number to see what data it waits for."),
    h("p", {}, h("label", { for: "file" }, "File "), select), box]);

  function draw(number, line) {
    const file = part.files[number];
    select.value = String(number);
    const numbers = new Map(file.numbers);
    const worst = line ?? hottest(file.numbers);
    clear(box,
      h("p", { class: "quiet path" }, file.file),
      file.newer ? h("p", { class: "warning" }, "This file was changed after the program was recorded: lines may have moved.") : null,
      file.pieces.length ? null : h("p", { class: "quiet" }, "The text of this file was not found where the recording says (report --sources FOLDER looks elsewhere); the numbers are known."),
      code(file, numbers, found, crossings.filter((row) => row.file === file.file), worst));
    const row = box.querySelector("tr.marked");
    if (row) box.querySelector(".code").scrollTop = row.offsetTop - 160;
  }
  if (part.files.length) draw(0, null);
  return {
    focus: (name, line) => {
      const number = part.files.findIndex((file) => file.file === name);
      if (number >= 0) draw(number, Number(line));
      else clear(box, h("p", {}, `${name}:${line} is not in this page: it holds the ${part.files.length} files that cost most.`));
    },
  };
}

function hottest(numbers) {
  let best = null;
  for (const [line, one] of numbers) {
    if (best === null || weight(one) > weight(best[1])) best = [line, one];
  }
  return best?.[0];
}

const weight = (one) => (one.latency_share ?? 0) + (one.cycles ?? 0) * 1e-18;

function code(file, numbers, found, crossings, marked) {
  const cycles = [...numbers.values()].some((one) => one.cycles !== undefined);
  const body = h("tbody");
  const pieces = file.pieces.length ? file.pieces : [...numbers.keys()].map((line) => ({ first: line, lines: [""] }));
  let next = 1;
  for (const piece of pieces) {
    if (piece.first > next && file.pieces.length) body.append(h("tr", { class: "gap" }, h("td", { colspan: 4 + (cycles ? 1 : 0) }, `${whole(piece.first - next)} lines left out`)));
    piece.lines.forEach((text, i) => body.append(row(piece.first + i, text, numbers.get(piece.first + i), found, crossings, cycles, marked)));
    next = piece.first + piece.lines.length;
  }
  return h("div", { class: "scroll code", tabindex: "0", role: "region", "aria-label": `source of ${base(file.file)}` },
    h("table", {}, h("caption", { class: "hidden" }, file.file),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "line"), h("th", { scope: "col" }, "waiting"),
        h("th", { scope: "col" }, found.live ? "samples" : "misses"), cycles ? h("th", { scope: "col" }, "cycles") : null, h("th", { scope: "col" }, "source"))), body));
}

function row(line, text, one, found, crossings, cycles, marked) {
  const share = one?.latency_share ?? 0;
  const element = h("tr", { id: `line-${line}`, class: line === marked ? "marked" : "" });
  const open = () => toggle(element, line, one, crossings, cycles);
  const number = one ? h("button", { type: "button", "aria-label": `what line ${line} waits for`, on: { click: open } }, String(line)) : String(line);
  add(element, [
    h("th", { scope: "row", class: "number" }, number),
    h("td", { class: "number heat", style: share ? { "--share": `${Math.round(8 + 62 * Math.sqrt(share))}%` } : {} }, share ? percent(share) : ""),
    h("td", { class: "number" }, one ? count(found.live ? one.sampled : one.misses) : ""),
    cycles ? h("td", { class: "number", title: one?.main ? `mostly ${words(one.main)}` : null }, one?.cycles ? count(one.cycles) : "") : null,
    h("td", { class: "text" }, h("code", {}, tokens(text)))]);
  return element;
}

function toggle(element, line, one, crossings, cycles) {
  if (element.nextSibling?.classList?.contains("told")) {
    element.nextSibling.remove();
    return;
  }
  const rows = crossings.filter((row) => row.line === line);
  element.after(h("tr", { class: "told" }, h("td", { colspan: 4 + (cycles ? 1 : 0) },
    one.function ? h("p", {}, "in ", toFunction(one.function), one.main ? `; stalls mostly for ${words(one.main)}` : "") : null,
    rows.length ? h("ul", {}, rows.map((row) => h("li", {}, toObject(row.object), `: ${row.misses === null ? `${whole(row.sampled)} samples` : `${whole(row.misses)} misses`}, ${percent(row.share)} of what it costs`)))
      : h("p", {}, "The objects that it waits for are not in this page."))));
}

function tokens(text) {
  const found = [];
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > last) found.push(text.slice(last, match.index));
    const kind = match.slice(1).findIndex((group) => group !== undefined);
    found.push(h("span", { class: `code-${CLASSES[kind]}` }, match[0]));
    last = match.index + match[0].length;
  }
  found.push(text.slice(last));
  return found;
}
