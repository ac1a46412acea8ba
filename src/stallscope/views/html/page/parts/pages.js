// SPDX-License-Identifier: Apache-2.0
import { axis, colour, figure, plot, series } from "../chart.js";
import { add, h } from "../dom.js";
import { bytes, count, whole } from "../format.js";
import { term } from "../glossary.js";
import { missing, toObject } from "../links.js";
import { bar, rowsOf, table } from "../table.js";

export default { id: "pages", title: "Memory", data: "pages", render };

function render(panel, found) {
  const part = found.parts.pages;
  add(panel, [h("h2", {}, "How much memory it needs")]);
  if (part.missing) return add(panel, [missing(part)]) && {};
  const size = (pages) => bytes(pages * part.page_size);
  add(panel, [
    h("p", {}, `It touches ${whole(part.footprint_pages)} pages (${bytes(part.footprint_bytes)}, its `, term("footprint"), `), on average ${whole(part.working_set.mean_pages)} within ${count(part.working_set.window)} instructions.`,
      part.knee.pages ? [" The ", term("knee"), ` is at ${whole(part.knee.pages)} pages (${size(part.knee.pages)}).`] : ""),
    figure({
      label: "Page misses at every size of memory.",
      reading: "Where the curve is steep, a little more memory saves many misses; right of the knee more memory saves little. Both axes are logarithmic.",
      picture: plot({ label: `page misses by size of memory, knee at ${part.knee.pages} pages`, height: 320, make: () => curve(part, size) }),
      fallback: table({ caption: "points of the curve", filter: false, rows: part.curve.map(([pages, misses]) => ({ pages, misses })), columns: [
        { key: "pages", label: "pages", number: true, show: whole }, { key: "misses", label: "misses", number: true, show: whole }] }),
    }),
    h("h3", {}, "Objects by page references"),
    table({ caption: "objects by page references", rows: rowsOf(part.objects), total: part.objects.total, columns: [
      { key: "object", label: "object", wide: true, show: (name) => toObject(name) },
      { key: "share", label: "of the references", number: true, show: bar },
      { key: "footprint_pages", label: "pages", number: true, show: whole }, { key: "references", label: "references", number: true, show: whole }] }),
  ]);
  return {};
}

function curve(part, size) {
  const points = part.curve.filter(([pages]) => pages > 0);
  const knee = part.knee.pages;
  return {
    data: [points.map((p) => p[0]), points.map((p) => Math.max(0.5, p[1]))],
    options: {
      legend: { live: true },
      scales: { x: { time: false, distr: 3, range: (u, low, high) => [low, high] }, y: { distr: 3 } },
      axes: [axis("memory", { values: (u, ticks) => ticks.map((v) => (v === null ? "" : size(v))), space: 80 }),
        axis("page misses", { size: 70, values: (u, ticks) => ticks.map((v) => (v === null ? "" : count(v))) })],
      series: [{ label: "pages", value: (u, v) => (v === null ? "–" : `${whole(v)} (${size(v)})`) },
        { label: "misses", stroke: series(0), width: 2, points: { show: false }, value: (u, v) => (v === null ? "–" : whole(v)) }],
      hooks: { draw: [(u) => {
        if (!knee) return;
        const x = u.valToPos(knee, "x", true);
        u.ctx.save();
        u.ctx.strokeStyle = colour("ink");
        u.ctx.fillStyle = colour("ink");
        u.ctx.setLineDash([6, 4]);
        u.ctx.beginPath();
        u.ctx.moveTo(x, u.bbox.top);
        u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
        u.ctx.stroke();
        u.ctx.font = `${12 * devicePixelRatio}px sans-serif`;
        u.ctx.textAlign = "right";
        u.ctx.fillText(`knee: ${size(knee)}`, x - 6 * devicePixelRatio, u.bbox.top + 14 * devicePixelRatio);
        u.ctx.restore();
      }] },
    },
  };
}
