// A histogram: bars of the decrypted counts, and marks of the counts without encryption.

const NS = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, TOP, BOTTOM] = [360, 190, 22, 24];

function part(name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/// The name of a bin: below the first edge, between two edges, or from the last edge on.
export function bin_name(edges, bin) {
  if (bin === 0) return `below ${edges[0]} °C`;
  return bin === edges.length ? `${edges[bin - 1]} °C and above` : `${edges[bin - 1]} to below ${edges[bin]} °C`;
}

/// Draws into an `svg`. `plain` may be missing; before the first window `counts` is missing, too.
export function draw(svg, edges, counts, plain) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  const bins = edges.length + 1;
  const step = WIDTH / bins;
  const most = Math.max(4, ...(counts ?? []), ...(plain ?? []));
  const high = (count) => ((HEIGHT - TOP - BOTTOM) * count) / most;
  const floor = HEIGHT - BOTTOM;
  const parts = [part("line", { x1: 0, x2: WIDTH, y1: floor, y2: floor, class: "axis" })];
  for (let bin = 0; bin < bins; bin++) {
    const count = counts?.[bin] ?? 0;
    parts.push(part("rect", { x: bin * step + 3, y: floor - high(count), width: step - 6, height: high(count), rx: 3, class: bin === bins - 1 ? "column hot" : "column" }));
    if (count > 0) parts.push(part("text", { x: (bin + 0.5) * step, y: floor - high(count) - 6, class: "tally" }, String(count)));
    if (plain?.[bin] > 0) parts.push(part("line", { x1: bin * step + 1, x2: (bin + 1) * step - 1, y1: floor - high(plain[bin]), y2: floor - high(plain[bin]), class: "plain" }));
    if (bin < edges.length) parts.push(part("text", { x: (bin + 1) * step, y: HEIGHT - 7, class: "edge" }, `${edges[bin]}`));
  }
  svg.replaceChildren(...parts);
}

/// The same as rows of a table: bin, decrypted, without encryption.
export function table(body, edges, counts, plain) {
  const row = (_, bin) => {
    const cells = [bin_name(edges, bin), counts?.[bin] ?? "–", plain?.[bin] ?? "–"];
    const line = document.createElement("tr");
    line.append(...cells.map((text, at) => Object.assign(document.createElement(at === 0 ? "th" : "td"), { textContent: String(text), className: at === 0 ? "" : "n" })));
    line.firstChild.scope = "row";
    return line;
  };
  body.replaceChildren(...Array.from({ length: edges.length + 1 }, row));
}
