// Requests of a page's worker to the server. A busy server is asked again. A refusal is thrown with
// its word.

// how long to retry with a busy server, and the pause between tries
const BUSY_MS = 60_000;
const PAUSE_MS = 1_000;

export class Refusal extends Error {
  constructor(text, word) {
    super(text);
    this.word = word;
  }
}

export class Server {
  /// `as` are headers that identify the client.
  constructor(url, as = {}) {
    this.url = url;
    this.as = as;
  }

  /// Sends a request. `known` statuses count as answers, too.
  ask(path, options = {}, known = []) {
    return again(async () => {
      const response = await fetch(this.url + path, { cache: "no-store", ...options, headers: { ...this.as, ...options.headers } });
      if (response.ok || known.includes(response.status)) return response;
      throw new Refusal((await response.text()).trim().slice(0, 300), response.headers.get("Tobari-Refusal") ?? String(response.status));
    });
  }

  async bytes(path, options = {}) {
    return new Uint8Array(await (await this.ask(path, options)).arrayBuffer());
  }

  /// Sends bytes and reports progress. `fetch` cannot report it, so this uses the older request.
  upload(path, bytes, told) {
    const once = (resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", this.url + path);
      for (const [name, value] of Object.entries(this.as)) request.setRequestHeader(name, value);
      request.upload.onprogress = ({ loaded, total }) => told(loaded, total);
      request.onload = () => {
        if (request.status >= 200 && request.status < 300) return resolve();
        reject(new Refusal(request.responseText.trim().slice(0, 300), request.getResponseHeader("Tobari-Refusal") ?? String(request.status)));
      };
      request.onerror = () => reject(new Refusal("the connection broke off", "connection"));
      request.send(bytes);
    };
    return again(() => new Promise(once));
  }
}

/// Tries once, and again after a pause while the server is busy.
async function again(once) {
  for (const began = performance.now(); ; ) {
    try {
      return await once();
    } catch (error) {
      if (error.word !== "busy" || performance.now() - began + PAUSE_MS > BUSY_MS) throw error;
    }
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}

/// The headers with the token, if there is one.
export const bearer = (token) => (token ? { Authorization: `Bearer ${token}` } : {});

/// Answers a page's questions one after the other, because there is one client.
export function answering(handlers) {
  let last = Promise.resolve();
  onmessage = ({ data }) => {
    last = last.then(async () => {
      try {
        postMessage({ answer: data.id, value: await handlers[data.ask](data) });
      } catch (error) {
        postMessage({ answer: data.id, error: error.message || `refused (${error.word ?? error})`, word: error.word });
      }
    });
  };
}
