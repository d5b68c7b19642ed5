// What all pages with a picture share: their data, elements made of text, and the choice of light or dark.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

// Signs that are obeyed and not seen, written out as the terminal's tables write them.
const shown = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
  (sign) => "\\u{" + sign.codePointAt(0).toString(16) + "}");

// Make an element. Its attributes and children are text or elements, and never HTML.
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== "" && value !== false) made.setAttribute(name, shown(value));
  }
  for (const child of children) {
    if (child !== undefined && child !== "") made.append(child instanceof Node ? child : shown(child));
  }
  return made;
}

// Make an element of a drawing; a text is its content.
function drawn(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, shown(value));
  if (text !== undefined) element.textContent = shown(text);
  return element;
}

const sizeText = (mib) => {
  const [value, unit] = mib >= 1048576 ? [mib / 1048576, "TiB"] : mib >= 1024 ? [mib / 1024, "GiB"] : [mib, "MiB"];
  return `${Number(value.toFixed(1)).toLocaleString("en")} ${unit}`;
};

const LOOKS = ["system", "light", "dark"];
const look = document.getElementById("look");
look.addEventListener("click", () => {
  const next = (LOOKS.findIndex((one) => look.textContent.endsWith(one)) + 1) % LOOKS.length;
  look.textContent = `Theme: ${LOOKS[next]}`;
  if (next) document.documentElement.dataset.look = LOOKS[next];
  else delete document.documentElement.dataset.look;
});
