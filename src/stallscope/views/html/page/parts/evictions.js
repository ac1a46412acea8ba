// SPDX-License-Identifier: Apache-2.0
import { colour, drawing, figure, tooltip } from "../chart.js";
import { add, clear, h } from "../dom.js";
import { percent, short, whole } from "../format.js";
import { term } from "../glossary.js";
import { missing, toObject } from "../links.js";
import { bar, rowsOf, table } from "../table.js";

export default { id: "evictions", title: "Evictions", data: "evictions", render };

function render(panel, found) {
  const part = found.parts.evictions;
  add(panel, [h("h2", {}, "Who throws whom out of the caches")]);
  if (part.missing) {
    add(panel, [missing(part)]);
    return {};
  }
  const rows = rowsOf(part);
  const box = h("div");
  const list = h("div");
  const wanted = found.parts.objects.level;
  const first = Math.max(0, part.matrices.findIndex((matrix) => matrix.level === wanted));
  const select = h("select", { id: "level", on: { change: () => draw() } },
    part.matrices.map((matrix, i) => h("option", { value: i, selected: i === first }, matrix.level)));
  let name = null;

  function draw() {
    const matrix = part.matrices[Number(select.value)];
    clear(box, heat(matrix));
    const here = rows.filter((row) => row.level === matrix.level && (name === null || row.evicted === name || row.by === name));
    clear(list,
      name === null ? null : h("p", {}, "Only what has to do with ", toObject(name), ". ",
        h("button", { type: "button", on: { click: () => { name = null; draw(); } } }, "Show all")),
      table({ caption: `evictions from ${matrix.level}`, rows: here, total: name === null ? undefined : 0, columns: [
        { key: "evicted", label: "thrown out", wide: true, show: (text) => toObject(text) },
        { key: "by", label: "by", wide: true, show: (text) => toObject(text) },
        { key: "count", label: "times", number: true, show: whole },
        { key: "share", label: "of the victim's", number: true, show: bar },
        { key: "share_all", label: "of the level's", number: true, show: percent }] }));
  }

  if (!part.matrices.length) {
    add(panel, [h("p", {}, "Nothing was thrown out: all data fits into the caches.")]);
    return {};
  }
  add(panel, [h("p", {}, h("label", { for: "level" }, "Cache "), select), box, list]);
  draw();
  return { focus: (wantedName) => { name = wantedName; draw(); list.scrollIntoView({ block: "nearest" }); } };
}

function heat(matrix) {
  const size = matrix.names.length;
  const cells = [];
  let worst = { count: -1 };
  matrix.counts.forEach((line, y) => line.forEach((count, x) => {
    if (count) cells.push([x, y, (100 * count) / Math.max(1, matrix.evictions)]);
    if (count > worst.count) worst = { count, victim: matrix.names[y], culprit: matrix.names[x] };
  }));
  const names = matrix.names.map((name) => short(name, 22));
  const label = { color: colour("ink"), width: 150, overflow: "truncate" };
  const picture = drawing({
    label: `eviction matrix of ${matrix.level}: most often ${short(worst.culprit)} throws out ${short(worst.victim)}, ${whole(worst.count)} times`,
    height: 190 + size * 24, width: Math.max(320, 200 + size * 30), most: 300 + size * 70,
    option: () => ({
      grid: { left: 8, right: 8, top: 8, bottom: 56, containLabel: true },
      tooltip: tooltip((e) => `${matrix.names[e.data[0]]}\nthrew out\n${matrix.names[e.data[1]]}\n${whole(matrix.counts[e.data[1]][e.data[0]])} times, ${e.data[2].toFixed(1)}% of all evictions`),
      xAxis: { type: "category", data: names, axisLabel: { ...label, rotate: 60, interval: 0, color: colour("ink") }, splitArea: { show: false } },
      yAxis: { type: "category", data: names, inverse: true, axisLabel: { ...label, interval: 0, color: colour("ink") } },
      visualMap: { min: 0, max: Math.max(...cells.map((cell) => cell[2])), calculable: false, orient: "horizontal", left: "center", bottom: 0, itemHeight: 140,
        text: ["many", "few"], textStyle: { color: colour("ink") }, inRange: { color: [colour("heat-low"), colour("heat-mid"), colour("heat-high")] } },
      series: [{ type: "heatmap", data: cells, itemStyle: { borderColor: colour("paper"), borderWidth: 1 } }],
    }),
    onClick: (e) => { location.hash = `objects/${encodeURIComponent(matrix.names[e.data[1]])}`; },
  });
  const flat = cells.map(([x, y]) => ({ evicted: matrix.names[y], by: matrix.names[x], count: matrix.counts[y][x] })).sort((a, b) => b.count - a.count);
  return figure({
    label: `Evictions from ${matrix.level}.`,
    reading: ["A row is a victim, a column who threw it out (", term("eviction"), "). Strong colour on the diagonal: the object does not fit and throws itself out. Off the diagonal: two objects compete, and moving one helps."],
    picture,
    fallback: table({ caption: "cells of the matrix", filter: false, rows: flat, columns: [
      { key: "evicted", label: "thrown out", wide: true }, { key: "by", label: "by", wide: true }, { key: "count", label: "times", number: true, show: whole }] }),
  });
}
