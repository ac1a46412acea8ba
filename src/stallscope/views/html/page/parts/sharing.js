// SPDX-License-Identifier: Apache-2.0
import { colour, drawing, figure, tooltip } from "../chart.js";
import { add, h } from "../dom.js";
import { percent, short, whole } from "../format.js";
import { term } from "../glossary.js";
import { missing } from "../links.js";
import { table } from "../table.js";

export default { id: "sharing", title: "Sharing", data: "sharing", render };

function render(panel, found) {
  const part = found.parts.sharing;
  add(panel, [h("h2", {}, "Which threads share data")]);
  if (part.missing) return add(panel, [missing(part)]) && {};
  add(panel, [
    h("p", {}, `On ${part.machine} (${part.protocol}), ${percent(part.remote_share)} of all cycles wait for other chips: ${whole(part.remote_misses)} `,
      term("remote miss", "remote misses"), `; with the threads placed by what they share, ${whole(part.remote_misses_placed)}.`),
    clusters(part), matrix(part), lines(part), threads(part), locks(part)]);
  return {};
}

function clusters(part) {
  if (!part.clusters.length) return h("p", {}, "No clusters of threads were found: they share too little, or all share the same.");
  return [h("h3", {}, "Threads to put together"), h("ol", {}, part.clusters.map((names) => h("li", {}, names.join(", "))))];
}

function matrix(part) {
  const names = part.matrix.threads;
  const cells = [];
  part.matrix.misses.forEach((line, y) => line.forEach((value, x) => { if (value) cells.push([x, y, value]); }));
  if (!cells.length) return null;
  const label = { color: colour("ink"), width: 120, overflow: "truncate", interval: 0 };
  return figure({
    label: "Sharing matrix.",
    reading: ["A cell tells how many misses from cache to cache two threads have on lines that both use. Blocks of strong colour are threads that belong on one chip."],
    picture: drawing({
      label: `sharing matrix of ${names.length} threads`, height: 170 + names.length * 26, width: Math.max(300, 160 + names.length * 30), most: 260 + names.length * 70,
      option: () => ({
        grid: { left: 8, right: 8, top: 8, bottom: 50, containLabel: true },
        tooltip: tooltip((e) => `${names[e.data[1]]} and ${names[e.data[0]]}\n${whole(e.data[2])} misses on lines of both`),
        xAxis: { type: "category", data: names.map((name) => short(name, 18)), axisLabel: { ...label, rotate: 60, color: colour("ink") } },
        yAxis: { type: "category", inverse: true, data: names.map((name) => short(name, 18)), axisLabel: { ...label, color: colour("ink") } },
        visualMap: { min: 0, max: Math.max(...cells.map((cell) => cell[2])), orient: "horizontal", left: "center", bottom: 0, text: ["many", "none"],
          textStyle: { color: colour("ink") }, inRange: { color: [colour("heat-low"), colour("heat-mid"), colour("heat-high")] } },
        series: [{ type: "heatmap", data: cells, itemStyle: { borderColor: colour("paper"), borderWidth: 1 } }],
      }),
    }),
    fallback: table({ caption: "pairs of threads", filter: false, rows: cells.filter(([x, y]) => x > y).map(([x, y, value]) => ({ one: names[y], other: names[x], value })), columns: [
      { key: "one", label: "thread" }, { key: "other", label: "and" }, { key: "value", label: "misses", number: true, show: whole }] }),
  });
}

function lines(part) {
  if (!part.lines.length) return h("p", {}, "No line is passed around enough to matter.");
  return [h("h3", {}, "Lines that threads pass around"),
    h("p", { class: "quiet" }, "“false” is ", term("false sharing"), ": padding cures it. The gain was found by replaying with the parts on lines of their own."),
    table({ caption: "shared lines by the cycles they cost", rows: part.lines, columns: [
      { key: "object", label: "object", wide: true }, { key: "field", label: "fields", wide: true }, { key: "kind", label: "sharing" },
      { key: "threads", label: "threads", number: true, show: (names) => h("span", { title: names.join(", ") }, String(names.length)) },
      { key: "misses", label: "misses", number: true, show: whole }, { key: "cycles", label: "cycles", number: true, show: whole },
      { key: "predicted_gain", label: "padding saves", number: true, show: percent },
      { key: "code", label: "where", wide: true, show: (places) => places.slice(0, 2).join(", ") }] })];
}

function threads(part) {
  return [h("h3", {}, "Threads"), table({ caption: "threads, and where they would go", rows: part.thread_rows, columns: [
    { key: "name", label: "thread" }, { key: "state", label: "state" }, { key: "cluster", label: "cluster", number: true },
    { key: "remote_misses", label: "remote misses", number: true, show: whole }, { key: "chip", label: "chip", number: true }] })];
}

function locks(part) {
  if (!part.locks?.length) return null;
  return [h("h3", {}, "Locks that threads slept for"), table({ caption: "locks", rows: part.locks, columns: [
    { key: "object", label: "lock", wide: true }, { key: "waits", label: "waits", number: true, show: whole }, { key: "misses", label: "misses", number: true, show: whole }] })];
}
