// Charts drawn as SVG: lines over time with a hand to read them, and small ones for rows.
import { h, s, clear, rate as words } from "./core.js";

const HEIGHT = 200;
const LEFT = 48;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 22;

// The top of an axis: a number that reads well, and whose half does too. `least` is twice the smallest number that a label can tell apart.
function ceiling(value, least) {
  if (value <= 0) return Math.max(1, least);
  const power = 10 ** Math.floor(Math.log10(value));
  return Math.max(least, [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value) ?? value);
}
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

export class Chart {
  // series: [{name, kind}]; kind is a class of the stylesheet that has its colour.
  constructor(title, series, { unit = "/s", format = words, least = 0.2 } = {}) {
    this.series = series.map((one) => ({ ...one, points: [] }));
    this.title = title;
    this.unit = unit;
    this.format = format;
    this.least = least;
    this.svg = s("svg", { class: "chart", role: "img", height: HEIGHT });
    this.tip = h("div", { class: "tip", hidden: true });
    const legend = h("div", { class: "legend" }, series.map((one) =>
      h("span", {}, h("i", { class: one.kind }), one.name, " ", h("b", { class: "unset" }))));
    this.values = [...legend.querySelectorAll("b")];
    this.node = h("div", { class: "chart-box" }, legend, this.svg, this.tip);
    this.svg.addEventListener("pointermove", (event) => this.#point(event));
    this.svg.addEventListener("pointerleave", () => { this.tip.hidden = true; this.hand?.setAttribute("hidden", ""); });
    new ResizeObserver(() => this.draw()).observe(this.node);
  }
  update(...points) {
    points.forEach((each, at) => { this.series[at].points = each; });
    this.draw();
  }
  draw() {
    const width = Math.max(240, this.node.clientWidth);
    this.width = width;
    const all = this.series.flatMap((one) => one.points);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.series.forEach((one, at) => {
      const last = one.points.at(-1)?.[1] ?? null;
      this.values[at].textContent = last === null ? "" : `${this.format(last)} ${this.unit}`;
    });
    if (all.length < 2) {
      clear(this.svg, s("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle", class: "waiting" }, "collecting…"));
      return;
    }
    let first = Infinity;
    let last = -Infinity;
    let most = 0;
    for (const [at, value] of all) { first = Math.min(first, at); last = Math.max(last, at); most = Math.max(most, value); }
    if (last === first) last += 1;
    const top = ceiling(most, this.least);
    this.x = (ms) => LEFT + ((ms - first) / (last - first)) * (width - LEFT - RIGHT);
    this.y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    this.svg.setAttribute("aria-label", `${this.title}: ` + this.series.map((one) =>
      `${one.name} ${this.format(one.points.at(-1)?.[1] ?? 0)} ${this.unit}`).join(", "));
    const grid = [0, 0.5, 1].map((part) => {
      const y = this.y(top * part);
      return [s("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "grid" }),
        s("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, this.format(top * part))];
    });
    const labels = Math.max(2, Math.floor(width / 220));
    const times = Array.from({ length: labels }, (_, at) => {
      const ms = first + ((last - first) * at) / (labels - 1);
      const anchor = at === 0 ? "start" : at === labels - 1 ? "end" : "middle";
      return s("text", { x: this.x(ms), y: HEIGHT - 6, "text-anchor": anchor }, clock(ms));
    });
    const lines = this.series.filter((one) => one.points.length > 1).map((one) => {
      const line = one.points.map(([at, value]) => `${this.x(at).toFixed(1)},${this.y(value).toFixed(1)}`);
      const floor = this.y(0);
      const area = `M${this.x(one.points[0][0]).toFixed(1)},${floor}L${line.join("L")}L${this.x(one.points.at(-1)[0]).toFixed(1)},${floor}Z`;
      return [s("path", { d: area, class: `area ${one.kind}` }), s("path", { d: `M${line.join("L")}`, class: `line ${one.kind}` })];
    });
    this.hand = s("line", { y1: TOP, y2: HEIGHT - BOTTOM, class: "hand", hidden: true });
    clear(this.svg, grid, times, lines, this.hand);
  }
  #point(event) {
    const points = this.series[0].points;
    if (points.length < 2 || !this.x) return;
    const box = this.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.width;
    let near = points[0];
    for (const point of points) if (Math.abs(this.x(point[0]) - x) < Math.abs(this.x(near[0]) - x)) near = point;
    const at = this.x(near[0]);
    this.hand.removeAttribute("hidden");
    this.hand.setAttribute("x1", at);
    this.hand.setAttribute("x2", at);
    clear(this.tip, h("div", {}, clock(near[0])), this.series.map((one) => {
      const value = one.points.find((point) => point[0] === near[0])?.[1];
      return value === undefined ? null : h("div", {}, h("i", { class: one.kind }), `${one.name} ${this.format(value)} ${this.unit}`);
    }));
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(at + 12, this.width - 150)}px`;
  }
}

export function spark(values, label) {
  const width = 90;
  const height = 22;
  const svg = s("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  if (values.length < 2) return svg;
  const most = Math.max(...values, 1e-9);
  const line = values.map((value, at) =>
    `${((at / (values.length - 1)) * width).toFixed(1)},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`).join("L");
  svg.append(s("path", { d: `M0,${height}L${line}L${width},${height}Z`, class: "area" }), s("path", { d: `M${line}`, class: "line" }));
  return svg;
}
