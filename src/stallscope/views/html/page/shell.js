// SPDX-License-Identifier: Apache-2.0
// The frame around the parts: header, tabs, what the address says, light and dark.
import { redraw } from "./chart.js";
import { clear, h } from "./dom.js";
import { whole, words } from "./format.js";
import about from "./parts/about.js";
import evictions from "./parts/evictions.js";
import functions from "./parts/functions.js";
import loads from "./parts/loads.js";
import objects from "./parts/objects.js";
import overview from "./parts/overview.js";
import pages from "./parts/pages.js";
import sharing from "./parts/sharing.js";
import source from "./parts/source.js";
import time from "./parts/time.js";

const PARTS = [overview, time, objects, functions, source, evictions, sharing, pages, loads, about];
const THEMES = ["auto", "light", "dark"];

// `extra` parts and the way `back` are a server's.
export function start(root, found, { extra = [], back = null } = {}) {
  tabbed(root, found, [...PARTS.slice(0, -1), ...extra, about], [header(found), back], found.recording);
}

// Parts as tabs, of which the address says one; `name` is what the page was made from.
export function tabbed(root, found, parts, head, name) {
  const context = { document: found, drawn: new Map() };
  const tabs = parts.map((part) => tab(part, context));
  const panels = parts.map((part) => h("section", {
    id: `panel-${part.id}`, role: "tabpanel", "aria-labelledby": `tab-${part.id}`, tabindex: "0", hidden: true,
  }));
  const list = h("div", { role: "tablist", "aria-label": "parts of the report", on: { keydown: (e) => arrows(e, tabs) } }, tabs);
  clear(root,
    h("a", { class: "skip", href: "#main", on: { click: (e) => { e.preventDefault(); panels.find((p) => !p.hidden)?.focus(); } } }, "Skip to the content"),
    h("header", {}, head),
    h("nav", { "aria-label": "parts" }, list),
    h("main", { id: "main" }, panels),
    h("footer", {}, h("p", {}, `Made by Stallscope ${found.stallscope} from ${name}.`)));

  const show = () => {
    const [id, ...rest] = location.hash.slice(1).split("/").map(decoded);
    const number = Math.max(0, parts.findIndex((part) => part.id === id));
    const part = parts[number];
    tabs.forEach((one, i) => {
      one.setAttribute("aria-selected", String(i === number));
      one.tabIndex = i === number ? 0 : -1;
    });
    panels.forEach((panel, i) => { panel.hidden = i !== number; });
    if (!context.drawn.has(part.id)) context.drawn.set(part.id, part.render(panels[number], found, context) ?? {});
    if (rest.length) context.drawn.get(part.id).focus?.(...rest);
    tabs[number].scrollIntoView?.({ block: "nearest", inline: "nearest" });
  };
  addEventListener("hashchange", show);
  show();
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

function tab(part, { document: found }) {
  const missing = part.data && found.parts[part.data]?.missing;
  return h("a", {
    id: `tab-${part.id}`, role: "tab", href: `${location.pathname}${location.search}#${part.id}`, "aria-controls": `panel-${part.id}`,
    class: missing ? "empty" : "", title: missing ? "not in this recording" : null,
  }, part.title);
}

function arrows(event, tabs) {
  const now = tabs.indexOf(document.activeElement);
  const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined || now < 0) return;
  event.preventDefault();
  const next = tabs[(to + tabs.length) % tabs.length];
  next.focus();
  location.hash = next.hash;
}

function header(found) {
  const { info } = found;
  const run = info.seconds ? `${info.seconds.toFixed(1)} s` : null;
  const facts = [
    found.live ? `${whole(info.samples)} samples by ${info.source}` : `simulated on ${found.parts.objects?.machine ?? info.machine}`,
    info.instructions ? `${whole(info.instructions)} instructions` : null,
    info.threads > 1 ? `${info.threads} threads` : null,
    info.processes.length > 1 ? `${info.processes.length} processes` : null,
    run ? `recorded in ${run}` : null,
    info.created.slice(0, 16).replace("T", " "),
    info.ending === "exit" ? null : `ended by ${words(String(info.ending))}`,
  ];
  return [
    h("h1", {}, h("code", {}, info.command.join(" "))),
    h("p", { class: "quiet" }, facts.filter(Boolean).join(" · ")),
    theme(),
  ];
}

export function theme() {
  const apply = (name) => {
    if (name === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = name;
    redraw();
  };
  const select = h("select", { on: { change: () => apply(select.value) } },
    THEMES.map((name) => h("option", { value: name }, name)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return h("label", { class: "theme" }, "Colours ", select);
}
