// SPDX-License-Identifier: Apache-2.0
import { axis, colour, figure, plot, series } from "../chart.js";
import { add, h } from "../dom.js";
import { count, whole, words } from "../format.js";
import { term } from "../glossary.js";
import { missing, toFunction, toLine, toObject } from "../links.js";
import { bar, rowsOf, table } from "../table.js";

export default { id: "time", title: "Time", data: "time", render };

function render(panel, found) {
  const part = found.parts.time;
  add(panel, [h("h2", {}, "What the processor waits for, over time")]);
  if (part.missing) return add(panel, [missing(part)]);
  add(panel, [timeline(part), phases(part), sources(part),
    h("h3", {}, "By function"), places(part.by_function, "stalls by function", true),
    h("h3", {}, "By line"), places(part.by_line, "stalls by line", false),
    h("h3", {}, "By object"), objects(part.by_object)]);
  return {};
}

// Layers from the bottom: work, then causes; each is drawn as the sum up to it, the highest first.
function layers({ timeline, causes }) {
  const named = [{ name: "work", values: timeline.completion, tint: () => colour("work") },
    ...causes.map((row, i) => ({ name: words(row.cause), values: timeline.causes[row.cause], tint: () => series(i) }))]
    .filter((layer, i) => i === 0 || layer.values.some((value) => value > 0));
  const sums = timeline.start.map(() => 0);
  return named.map((layer) => {
    const own = layer.values.map((value, i) => value / Math.max(1, timeline.instructions[i]));
    own.forEach((value, i) => { sums[i] += value; });
    return { ...layer, own, top: [...sums] };
  });
}

// Short spikes, as at the start of a program, would press all else to the floor: the axis ends where
// all but a hundredth of the cycles have room.
function highest({ timeline }, tops) {
  const rows = timeline.cycles.map((cycles, i) => ({ cycles, cpi: tops[i] })).sort((a, b) => b.cpi - a.cpi);
  let left = timeline.cycles.reduce((sum, cycles) => sum + cycles, 0) / 100;
  return (rows.find((row) => (left -= row.cycles) < 0)?.cpi ?? 1) * 1.15 || 1;
}

function timeline(part) {
  const found = layers(part);
  const most = highest(part, found[found.length - 1].top);
  const picture = plot({ label: "cycles per instruction over time, stacked by cause", height: 320, make: () => ({
    data: [part.timeline.start, ...[...found].reverse().map((layer) => layer.top)],
    options: {
      scales: { x: { time: false }, y: { range: () => [0, most] } },
      axes: [axis("cycles", { values: (u, ticks) => ticks.map(count) }), axis("cycles per instruction", { size: 60 })],
      series: [{ label: "cycle", value: (u, v) => (v === null ? "–" : whole(v)) },
        ...[...found].reverse().map((layer) => ({
          label: layer.name, stroke: layer.tint(), fill: layer.tint(), width: 1, points: { show: false },
          paths: undefined, value: (u, v, s, i) => (i === null || i === undefined ? "–" : layer.own[i].toFixed(2)),
        }))],
      hooks: { draw: [(u) => marks(u, part.phases)] },
      cursor: { drag: { x: true, y: false } },
    },
  }) });
  return figure({
    label: "Cycles per instruction over the run.",
    reading: ["The bottom layer is work, those above are ", term("stall", "stalls"), " by cause; the height is ", term("CPI"),
      ". Dashed lines begin a new ", term("phase"), ". Spikes that last less than a hundredth of the run may be cut. Drag to zoom, double-click to see all."],
    picture,
    fallback: table({ caption: "causes of stalls", filter: false, rows: part.causes, columns: [
      { key: "cause", label: "cause", show: words }, { key: "cycles", label: "cycles", number: true, show: whole },
      { key: "cpi", label: "CPI", number: true, show: (v) => v.toFixed(3) }, { key: "share", label: "of stalls", number: true, show: bar }] }),
  });
}

function marks(u, found) {
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = colour("ink");
  ctx.fillStyle = colour("ink");
  ctx.setLineDash([6, 4]);
  ctx.font = `${12 * devicePixelRatio}px sans-serif`;
  found.forEach((phase, i) => {
    const x = u.valToPos(phase.start, "x", true);
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
    ctx.beginPath();
    ctx.moveTo(x, u.bbox.top);
    ctx.lineTo(x, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.fillText(String(i + 1), x + 4 * devicePixelRatio, u.bbox.top + 14 * devicePixelRatio);
  });
  ctx.restore();
}

function phases(part) {
  const rows = part.phases.map((phase, i) => ({ ...phase, number: i + 1, share: phase.cycles / Math.max(1, part.cycles) }));
  return [h("h3", {}, "Phases"), table({ caption: "phases of the run, in order", filter: false, rows, columns: [
    { key: "number", label: "phase", number: true }, { key: "share", label: "of the time", number: true, show: bar },
    { key: "cpi", label: "CPI", number: true, show: (v) => v.toFixed(2) },
    { key: "main", label: "waits mostly for", show: words },
    { key: "instructions", label: "instructions", number: true, show: whole }] })];
}

function sources(part) {
  if (!part.sources.length) return null;
  return [h("h3", {}, "Where data came from"),
    h("p", { class: "quiet" }, "Misses times latency overstates what a level costs, as misses overlap: the cycles are what the pipeline really lost."),
    table({ caption: "levels that served misses", filter: false, rows: part.sources, columns: [
      { key: "source", label: "served by" }, { key: "misses", label: "misses", number: true, show: whole },
      { key: "latency", label: "latency", number: true, show: whole }, { key: "cycles", label: "cycles lost", number: true, show: whole },
      { key: "naive_cycles", label: "misses × latency", number: true, show: whole }] })];
}

const MEASURES = [
  { key: "cycles", label: "cycles", number: true, show: whole }, { key: "share", label: "of stalls", number: true, show: bar },
  { key: "main", label: "mostly", show: words }];

function places(part, caption, byFunction) {
  const where = byFunction
    ? [{ key: "function", label: "function", wide: true, show: (name) => toFunction(name) }]
    : [{ key: "line", label: "line", show: (line, row) => toLine(row.file, line) },
      { key: "function", label: "function", wide: true, show: (name) => toFunction(name) }];
  return table({ caption, rows: rowsOf(part), total: part.total, first: 10, columns: [...where, ...MEASURES] });
}

function objects(part) {
  return table({ caption: "stalls by object", rows: rowsOf(part), total: part.total, first: 10,
    columns: [{ key: "name", label: "object", wide: true, show: (name) => toObject(name) }, ...MEASURES] });
}

