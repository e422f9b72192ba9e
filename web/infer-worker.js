// The worker of the page for images: the client with the key, its requests, and its stored keys.
// All slow work is here.

import { Infer } from "./infer-client.js";
import { Refusal, Server, answering, bearer } from "./server.js";

const compiled = WebAssembly.compileStreaming(fetch(new URL("dist/ask.wasm", import.meta.url)));
const random = (bytes) => crypto.getRandomValues(bytes);
const SAMPLE = 2048; // bytes of a question to draw

let client = null;
let key = null; // its description
let server = null;

async function ready() {
  client ??= await Infer.make(await compiled, random);
  return client;
}

const model_path = (digest) => `/infer/v1/models/${digest}`;

/// The server's own time from a header, in milliseconds by step.
function timing(response) {
  const told = response.headers.get("Server-Timing") ?? "";
  return told.split(",").flatMap((part) => {
    const found = part.trim().match(/^s(\d+);dur=([\d.]+)$/);
    return found ? [Number(found[2])] : [];
  });
}

// ---- stored keys, if the person agreed

function database() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("tobari", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

async function shelf(mode, work) {
  const opened = await database();
  try {
    return await new Promise((resolve, reject) => {
      const asked = work(opened.transaction("keys", mode).objectStore("keys"));
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => reject(asked.error);
    });
  } finally {
    opened.close();
  }
}

const place = (digest) => `infer ${server.url} ${digest}`;

async function put() {
  const bytes = client.keys();
  await server.upload(`${model_path(key.model)}/keys`, bytes, (sent, total) => postMessage({ progress: { sent, total } }));
  return bytes.length;
}

const since = (began) => performance.now() - began;

answering({
  /// The models of a server.
  list: async ({ url, token }) => {
    server = new Server(url, bearer(token));
    return (await (await server.ask("/infer/v1")).json()).models;
  },
  /// Loads the stored key of a model, if there is one.
  kept: async ({ digest }) => {
    const kept = await shelf("readonly", (keys) => keys.get(place(digest))).catch(() => undefined);
    if (!kept) return null;
    await ready();
    try {
      key = client.take_up(kept);
    } catch {
      return null; // the key has another version: the page makes a new one
    } finally {
      kept.fill(0);
    }
    return key;
  },
  /// Makes a key; nothing is sent.
  make: async ({ digest, keep }) => {
    const card = await server.bytes(model_path(digest));
    const began = performance.now();
    key = (await ready()).begin(digest, card);
    const ms = since(began);
    if (keep) {
      const bytes = client.kept();
      await shelf("readwrite", (keys) => keys.put(bytes, place(digest)));
      bytes.fill(0);
    }
    return { ...key, ms };
  },
  /// Sends the evaluation keys if the server lacks them. Returns the number of sent bytes.
  send: async ({ fresh }) => {
    if (fresh) return put();
    const known = await server.ask(`${model_path(key.model)}/keys/${key.keys}`, {}, [404]);
    if (known.status !== 404) return 0;
    if (known.headers.get("Tobari-Refusal") !== "key") throw new Refusal((await known.text()).trim(), "model");
    return put();
  },
  /// Sends an image, and returns its label.
  classify: async ({ pixels }) => {
    const times = {};
    let began = performance.now();
    const question = client.question(pixels);
    if (question === null) throw new Error(`expected an image of ${key.pixels} pixels`);
    times.encrypt = since(began);
    began = performance.now();
    const options = { method: "POST", body: question, headers: { "Tobari-Key": key.keys } };
    const path = `${model_path(key.model)}/answers`;
    let response = await server.ask(path, options, [404]);
    if (response.status === 404) {
      // the server drops keys after long disuse
      if (response.headers.get("Tobari-Refusal") !== "key") throw new Refusal((await response.text()).trim(), "model");
      await put();
      response = await server.ask(path, options);
    }
    const answer = new Uint8Array(await response.arrayBuffer());
    times.wait = since(began);
    began = performance.now();
    const { labels, close } = client.answer(answer);
    times.decrypt = since(began);
    const sample = question.slice(-SAMPLE); // a question begins with a header and a seed
    return { labels, close, times, steps: timing(response), up: question.length, down: answer.length, sample };
  },
  /// Deletes the key from memory and from storage.
  forget: async ({ digest }) => {
    key = null;
    client?.forget();
    await shelf("readwrite", (keys) => keys.delete(place(digest))).catch(() => undefined);
    return true;
  },
});
