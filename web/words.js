// Words of the pages of the jobs: states, alarms, sizes and times.

import { fingerprint } from "./bundle.js";

export const $ = (id) => document.getElementById(id);

export function state(text, kind = "") {
  $("state").textContent = text;
  $("state").dataset.state = kind;
}

/// Text for screen readers.
export const say = (text) => ($("say").textContent = text);

export function alarm(text) {
  const line = document.createElement("p");
  const words = document.createElement("span");
  words.textContent = text;
  const close = document.createElement("button");
  Object.assign(close, { type: "button", textContent: "Dismiss", onclick: () => line.remove() });
  line.append(words, close);
  $("alarms").replaceChildren(line);
}

export function size(bytes) {
  if (bytes < 1e3) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

export const time = (ms) => (ms === undefined ? "–" : ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1e4 ? `${ms.toFixed(0)} ms` : `${(ms / 1e3).toFixed(1)} s`);

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");

/// The rows of a plan: step, place, data seen there, time. Steps in this tab are marked.
export function plan(rows) {
  $("steps").replaceChildren(
    ...rows.map((cells) => {
      const row = document.createElement("tr");
      row.classList.toggle("here", cells[1] === "this tab");
      row.append(...cells.map((text, at) => Object.assign(document.createElement("td"), { textContent: text, className: at === 3 ? "n" : "" })));
      return row;
    }),
  );
}

/// The server of this page.
export const server_of = ({ origin, pathname }, job) => origin + pathname.slice(0, pathname.lastIndexOf(`/${job}/`));

/// Shows the page's origin and the fingerprint of its files.
export function origin() {
  $("origin").textContent = location.host;
  fingerprint().then(
    (digest) => ($("bundle").textContent = digest),
    () => ($("bundle").textContent = "not known here"),
  );
}

/// Whether a refusal asks for a token.
const wants_token = ({ word }) => ["401", "token"].includes(word);

/// The offer of the page's server. Nothing if the job is not served, or if the server first wants a
/// token, through the page's form.
export async function admitted(ask, { url, token }, missing) {
  state("Connecting…");
  try {
    const offered = await ask("list", { url, token });
    $("door").hidden = true;
    return offered;
  } catch (error) {
    if (wants_token(error)) {
      $("door").hidden = false;
      state("A token is needed");
      if (token) alarm("The server does not know this token.");
      $("door").elements.token.focus();
      return undefined;
    }
    not_served(error.word === "404" ? `This server has ${missing}` : `The server cannot be asked: ${error.message}`);
    return undefined;
  }
}

/// Shows that the server does not serve this job.
export function not_served(why) {
  state("Not served", "over");
  alarm(why);
}
