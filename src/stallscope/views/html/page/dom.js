// SPDX-License-Identifier: Apache-2.0
// Elements from data. Text is only ever set as text: names of a recording may hold anything.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (name === "style") {
      for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : visible(String(child)));
  }
  return element;
}

export function clear(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

// Marks that turn text around or are invisible are shown, so that no name poses as another.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
export function visible(text) {
  return text.replace(ODD, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}
