// The figures of a key holder over time: a chart for each figure, with a line for each group.

const NS = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, EDGE] = [720, 180, 10];
const EVERY = 10_000;
/// Lines of a chart. Further groups are in the table.
const MOST_LINES = 8;
/// At least 3 to 1 against the light and the dark ground.
const COLOURS = ["#2b87c4", "#c46a1b", "#3d9142", "#a855c7", "#d6457f", "#1f918a", "#977060", "#74858e"];
const DASHES = ["", "8 3", "2 3", "10 3 2 3", "", "8 3", "2 3", "10 3 2 3"];
/// Figures of a vector that have a chart.
const MOST_PLACES = 16;

const $ = (id) => document.getElementById(id);
const view = { token: null, shown: "" };

class Denied extends Error {}

async function ask(path) {
  const headers = view.token === null ? {} : { authorization: `Bearer ${view.token}` };
  const reply = await fetch(path, { headers, cache: "no-store" });
  if (reply.status === 401) throw new Denied();
  if (!reply.ok) throw new Error(`the key holder answered with status ${reply.status}`);
  return reply.json();
}

function node(name, attributes = {}, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const rounded = (value) => (value === null ? "none" : Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(7))));
const time = (ms) => new Date(ms).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });

/// The numbers of a figure: name, value, and whether it is an alarm.
function numbers(figure) {
  switch (figure.kind) {
    case "count":
      return [["readings", figure.value]];
    case "number":
      return [[`${figure.statistic} of ${figure.channel}`, figure.value]];
    case "vector":
      return figure.values.slice(0, MOST_PLACES).map((value, at) => [`${figure.statistic} of ${figure.channel}[${figure.first + at}]`, value]);
    case "histogram":
      return figure.counts.map((count, bin) => {
        const [from, to] = [figure.edges[bin - 1], figure.edges[bin]];
        const name = from === undefined ? `below ${to}` : to === undefined ? `from ${from}` : `${from} to below ${to}`;
        return [`${figure.channel}: readings ${name}`, count];
      });
    case "above":
      return [[`${figure.channel}: readings above ${figure.threshold}`, figure.count, figure.alarm === true]];
    default:
      return [];
  }
}

/// By name of the figure and by group: points of a window's beginning and end, and a value.
function series(releases) {
  const charts = new Map();
  for (const release of releases) {
    for (const { group, figures } of release.groups) {
      for (const [name, value, alarm] of figures.flatMap(numbers)) {
        if (!charts.has(name)) charts.set(name, new Map());
        const lines = charts.get(name);
        if (!lines.has(group)) lines.set(group, []);
        if (value !== null) lines.get(group).push({ from: release.start_ms, to: release.end_ms, value, alarm });
      }
    }
  }
  return charts;
}

/// The range of values. It begins at 0 if the values are not far from it.
function range(points) {
  let [low, high] = [Infinity, -Infinity];
  for (const { value } of points) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (points.length === 0) return [0, 1];
  if (low >= 0 && low < high / 2) low = 0;
  if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  return [low, high];
}

/// Where the value of each window stands: over the window, or over its end if windows overlap.
function places(points) {
  const slides = points.some(({ from }, at) => at > 0 && from < points[at - 1].to);
  if (!slides) return points.map((point) => ({ ...point, left: point.from, right: point.to }));
  return points.map((point, at) => ({ ...point, left: at > 0 && point.from <= points[at - 1].to ? points[at - 1].to : point.from, right: point.to }));
}

/// A line that is broken where no window was released.
function line(points, x, y) {
  let [path, end] = ["", null];
  for (const { left, right, value } of points) {
    path += `${end !== null && left <= end ? "L" : "M"}${x(left).toFixed(1)} ${y(value).toFixed(1)}H${x(right).toFixed(1)}`;
    end = right;
  }
  return path;
}

function chart(name, lines, [begin, end]) {
  const groups = [...lines].filter(([, points]) => points.length > 0).slice(0, MOST_LINES).map(([group, points]) => [group, places(points)]);
  const all = groups.flatMap(([, points]) => points);
  const [low, high] = range(all);
  const x = (ms) => ((ms - begin) / Math.max(1, end - begin)) * WIDTH;
  const y = (value) => HEIGHT - EDGE - ((value - low) / (high - low)) * (HEIGHT - 2 * EDGE);
  const figure = node("figure");
  const title = node("h2", {}, name);
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: 0 });
  const last = groups.map(([group, points]) => `${group} ${rounded(points.at(-1).value)}`).join(", ");
  svg.setAttribute("aria-label", `${name}: from ${rounded(low)} to ${rounded(high)}. Newest: ${last}`);
  for (const value of [low, high]) svg.append(drawn("line", { x1: 0, x2: WIDTH, y1: y(value), y2: y(value) }));
  groups.forEach(([, points], at) => {
    svg.append(drawn("path", { d: line(points, x, y), stroke: COLOURS[at], "stroke-dasharray": DASHES[at] }));
    for (const { left, right, value } of points.filter(({ alarm }) => alarm)) {
      svg.append(drawn("circle", { class: "alarm", cx: (x(left) + x(right)) / 2, cy: y(value), r: 4 }));
    }
  });
  const cursor = drawn("line", { class: "cursor", y1: 0, y2: HEIGHT, x1: -9, x2: -9 });
  svg.append(cursor);
  const newest = `newest: ${last}`;
  const readout = node("p", { class: "readout", "aria-live": "polite" }, newest);
  const show = (ms) => {
    const near = groups.map(([group, points]) => [group, points.find(({ left, right }) => left <= ms && ms < right)]).filter(([, point]) => point);
    const place = ms === null ? -9 : x(ms);
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    readout.textContent = ms === null ? newest : near.length === 0 ? `${time(ms)}: no release` : `${time(near[0][1].from)} to ${time(near[0][1].to)}: ${near.map(([group, { value }]) => `${group} ${rounded(value)}`).join(", ")}`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    show(begin + ((event.clientX - box.left) / box.width) * (end - begin));
  });
  svg.addEventListener("pointerleave", () => show(null));
  // windows one by one, by keyboard
  const windows = [...new Set(all.map(({ left }) => left))].sort((a, b) => a - b);
  let chosen = windows.length;
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    chosen = Math.min(windows.length - 1, Math.max(0, chosen + step));
    show(windows[chosen]);
  });
  svg.addEventListener("blur", () => show(null));
  const ends = node("p", { class: "ends" });
  ends.append(node("span", {}, time(begin)), node("span", {}, `${rounded(low)} to ${rounded(high)}`), node("span", {}, time(end)));
  const legend = node("ul", { class: "legend" });
  groups.forEach(([group], at) => {
    const item = node("li");
    const swatch = drawn("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    swatch.append(drawn("path", { d: "M0 5H26", stroke: COLOURS[at], "stroke-dasharray": DASHES[at] }));
    item.append(swatch, document.createTextNode(` ${group}`));
    legend.append(item);
  });
  figure.append(title, readout, svg, ends);
  if (groups.length > 1) figure.append(legend);
  if (lines.size > groups.length) figure.append(node("figcaption", {}, `${groups.length} of ${lines.size} groups; the table has all`));
  return figure;
}

function rows(releases) {
  const all = [];
  for (const release of releases.toReversed()) {
    for (const { group, devices, frames, figures } of release.groups) {
      const row = node("tr");
      const said = figures.flatMap(numbers).map(([name, value]) => `${name}: ${rounded(value)}`).join("; ");
      for (const text of [time(release.start_ms), time(release.end_ms), group, devices, frames, said]) row.append(node("td", {}, String(text)));
      all.push(row);
    }
  }
  return all;
}

function notes(releases) {
  // a question about several sheets has a release of each
  const newest = releases.filter(({ start_ms }) => start_ms === releases.at(-1).start_ms);
  const too_few = [...new Set(newest.flatMap(({ too_few }) => too_few))];
  const left_out = releases.reduce((sum, release) => sum + release.left_out, 0);
  const said = [];
  if (too_few.length > 0) said.push(`In the newest window too few devices had frames in: ${too_few.join(", ")}.`);
  if (left_out > 0) said.push(`${left_out} frames were beyond the question's limit and are left out.`);
  const alarms = newest.flatMap(({ groups }) => groups).flatMap(({ group, figures }) => figures.filter(({ alarm }) => alarm === true).map(({ channel, threshold }) => `${channel} is above ${threshold} in ${group}`));
  $("alarm").hidden = alarms.length === 0;
  const text = `Alarm: ${alarms.join("; ")}`;
  if (alarms.length > 0 && $("alarm").textContent !== text) $("alarm").textContent = text;
  $("notes").textContent = said.join(" ");
}

function draw(every) {
  const starts = [...new Set(every.map(({ start_ms }) => start_ms))];
  const first = starts.at(-Number($("span").value)) ?? starts[0];
  const releases = every.filter(({ start_ms }) => start_ms >= first);
  const begin = Math.min(...releases.map(({ start_ms }) => start_ms));
  const end = Math.max(...releases.map(({ end_ms }) => end_ms));
  notes(releases);
  const charts = [...series(releases)].filter(([, lines]) => [...lines.values()].some((points) => points.length > 0));
  const focused = [...document.querySelectorAll("#charts figure > svg")].indexOf(document.activeElement);
  $("charts").replaceChildren(...charts.map(([name, lines]) => chart(name, lines, [begin, end])));
  document.querySelectorAll("#charts figure > svg")[focused]?.focus();
  $("rows").replaceChildren(...rows(releases));
  const count = starts.filter((start) => start >= first).length;
  $("state").textContent = `${count} ${count === 1 ? "window" : "windows"}, until ${time(end)}`;
}

function choose(newest) {
  const names = [...new Set(newest.map(({ question }) => question))];
  const known = [...$("question").options].map(({ value }) => value);
  if (names.join("\n") !== known.join("\n")) {
    const before = $("question").value;
    $("question").replaceChildren(...names.map((name) => node("option", { value: name }, name)));
    if (names.includes(before)) $("question").value = before;
  }
  return $("question").value;
}

async function look() {
  try {
    const newest = await ask("releases");
    $("door").hidden = true;
    if (newest.length === 0) {
      $("state").textContent = "No release yet. A window is released after its end.";
      return;
    }
    $("work").hidden = false;
    const question = choose(newest);
    const mark = JSON.stringify([newest.filter((release) => release.question === question), $("span").value]);
    if (mark === view.shown) return;
    const releases = await ask(`releases/${encodeURIComponent(question)}`);
    // another question was chosen meanwhile
    if (question !== $("question").value) return look();
    draw(releases);
    view.shown = mark;
  } catch (error) {
    if (error instanceof Denied) {
      $("door").hidden = false;
      $("work").hidden = true;
      $("state").textContent = view.token === null ? "" : "The key holder does not know this token.";
      return;
    }
    $("state").textContent = `No new figures: ${error.message}. The page tries again.`;
  }
}

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  view.token = $("token").value.trim();
  $("token").value = "";
  look();
});
$("choice").addEventListener("change", look);
$("choice").addEventListener("submit", (event) => event.preventDefault());
setInterval(() => {
  // a token is typed, or the page is hidden
  if (!document.hidden && $("door").hidden) look();
}, EVERY);
document.addEventListener("visibilitychange", () => !document.hidden && $("door").hidden && look());
look();
