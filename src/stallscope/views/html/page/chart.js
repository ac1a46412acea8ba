// SPDX-License-Identifier: Apache-2.0
// Pictures. Tooltips are drawn, never written as HTML, so that names in them stay text.
import { BarChart, HeatmapChart } from "echarts/charts";
import { AriaComponent, GridComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { h } from "./dom.js";

echarts.use([BarChart, HeatmapChart, GridComponent, TooltipComponent, VisualMapComponent, AriaComponent, CanvasRenderer]);

const redraws = new Set();

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Data colours keep their meaning in every picture: one for each cause or class.
export function series(number) {
  return colour(`series-${(number % 10) + 1}`);
}

export function redraw() {
  for (const again of [...redraws]) again();
}

// A figure: picture, how to read it, and the same as a table for who sees no picture.
export function figure({ label, reading, picture, fallback }) {
  return h("figure", {},
    h("figcaption", {}, h("strong", {}, label), " ", reading),
    picture,
    fallback ? h("details", {}, h("summary", {}, "As a table"), fallback) : null);
}

export function drawing({ label, height, width = 0, most = 0, option, onClick }) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label, style: { height: `${height}px`, "min-width": `${width}px`, "max-width": most ? `${most}px` : "none" } });
  const outer = h("div", { class: "scroll" }, box);
  let chart = null;
  const draw = () => {
    if (!box.isConnected || box.clientWidth === 0) return;
    chart ??= echarts.init(box, null, { renderer: "canvas" });
    chart.resize();
    chart.setOption({ animation: false, textStyle: { color: colour("ink"), fontFamily: "inherit" }, ...option() }, true);
    if (onClick) { chart.off("click"); chart.on("click", onClick); }
    box.dataset.drawn = "yes";
  };
  watch(box, draw);
  return outer;
}

// Lines or areas over a common x: uPlot's data and options, made anew when colours or width change.
export function plot({ label, height, make }) {
  const box = h("div", { class: "plot", role: "img", "aria-label": label });
  let made = null;
  let width = 0;
  const draw = () => {
    if (!box.isConnected || box.clientWidth === 0) return;
    width = box.clientWidth;
    made?.destroy();
    const { options, data } = make();
    made = new uPlot({ width, height, ...options }, data, box);
    box.dataset.drawn = "yes";
  };
  watch(box, draw, () => box.clientWidth !== width);
  return box;
}

export function axis(label, extra = {}) {
  return {
    label, stroke: colour("ink"), grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line") }, font: "12px sans-serif", labelFont: "12px sans-serif", ...extra,
  };
}

export function tooltip(formatter) {
  return {
    renderMode: "richText", confine: true, formatter, backgroundColor: colour("paper"),
    borderColor: colour("line"), textStyle: { color: colour("ink"), fontSize: 12, width: 320, overflow: "break" },
  };
}

function watch(box, draw, needed = () => true) {
  redraws.add(draw);
  new ResizeObserver(() => { if (needed()) draw(); }).observe(box);
}
