// The worker of the page for tables: the client with the key, and its requests.

import { Search } from "./search-client.js";
import { Refusal, Server, answering, bearer } from "./server.js";
import { haplotypes } from "./vcf.js";

const compiled = WebAssembly.compileStreaming(fetch(new URL("dist/ask.wasm", import.meta.url)));
const random = (bytes) => crypto.getRandomValues(bytes);
const ATTEMPTS = 4; // with another key, or for a replaced table
const SAMPLE = 400; // bytes of a question to show

let client = null;
let server = null;
let name = null; // 16 bytes: the client's name
let table = null;
let most = 0; // the most labels of a question
const registered = new Set();
const layouts = new Map(); // of the chosen table, by path: the bytes, and the key of labels that they are for

const digits = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const bytes_of = (text) => Uint8Array.from(text.match(/../g), (byte) => parseInt(byte, 16));
const since = (began) => performance.now() - began;

/// Fetches the descriptions of tables.
async function look() {
  const { tables, labels } = await (await server.ask("/search/v1")).json();
  const found = tables.find((one) => one.name === table.name);
  if (!found) throw new Refusal("the table is no longer there", "table");
  [table, most] = [found, labels];
  layouts.clear();
  return client.table(await server.bytes(`/search/v1/tables/${table.name}`));
}

answering({
  /// The tables of a server.
  list: async ({ url, token }) => {
    client ??= await Search.make(await compiled, random);
    const own = client.name();
    server = new Server(url, token ? bearer(token) : { "Tobari-Client": digits(own) });
    const list = await (await server.ask("/search/v1")).json();
    name = list.client ? bytes_of(list.client) : own;
    registered.clear();
    return list.tables;
  },
  /// Chooses a table.
  take: async ({ chosen }) => {
    table = chosen;
    return look();
  },
  /// Reads one person's alleles at sites of the table. The file stays in this tab.
  sample: async ({ file, at, count }) => {
    const sites = client.sites(at, count);
    const { chromosome, position, reference, alternate } = sites[0];
    return { at: [chromosome, position, reference, alternate].join(":"), ...(await haplotypes(file, sites)) };
  },
  /// Sends a question, and returns the answer.
  search: async ({ wanted }) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await once(wanted);
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
        if (error.word === "uses") client.renew();
        else if (error.word === "key") registered.clear();
        else if (["revision", "table", "mode"].includes(error.word)) await look();
        else if (error.word !== "labels") throw error; // of an earlier key: the next round evaluates again
      }
    }
  },
});

/// Fetches the layout of questions whose place hides.
async function arranged(path, revision) {
  layouts.set(path, { bytes: await server.bytes(`/search/v1/tables/${table.name}/hidden/${path}`), revision });
}

async function once(wanted) {
  const times = {};
  let began = performance.now();
  const labels = table.mode === "labels";
  const seen = client.prepare({ ...wanted, labels: labels ? most : null });
  // before the evaluation, so that a cell without a layout costs no test
  if (seen.path && !layouts.has(seen.path)) await arranged(seen.path, null);
  let sent = 0;
  if (!registered.has(seen.key)) {
    const registration = client.registration();
    await server.ask(seen.path ? "/search/v1/hidden/keys" : `/search/v1/keys/${seen.set}`, { method: "POST", body: registration });
    registered.add(seen.key);
    sent = registration.length;
    began = performance.now();
  }
  if (labels) {
    const request = client.evaluation(name);
    const { revision } = client.evaluated(await server.bytes("/search/v1/evaluations", { method: "POST", body: request }));
    const known = layouts.get(seen.path)?.revision;
    if (seen.path && known && known !== revision) await arranged(seen.path, revision);
    else if (seen.path) layouts.get(seen.path).revision = revision;
  }
  if (seen.path) client.layout(layouts.get(seen.path).bytes);
  const query = client.query(name);
  times.encrypt = since(began);
  began = performance.now();
  const headers = { "Tobari-Key": seen.key };
  if (!seen.path) headers["If-Match"] = table.tag;
  const answer = await server.bytes(`/search/v1/${seen.path ? "hidden/" : ""}queries`, { method: "POST", body: query, headers });
  times.wait = since(began);
  began = performance.now();
  const heard = client.answer(answer);
  times.decrypt = since(began);
  return { heard, seen, times, registered: sent, up: query.length, down: answer.length, sample: query.slice(-SAMPLE) };
}
