// The server, as a page's worker asks it: again where it is busy, and a refusal is thrown with its word.

// for how long a busy server is asked again, and after how long each time
const BUSY_MS = 60_000;
const PAUSE_MS = 1_000;

export class Refusal extends Error {
  constructor(text, word) {
    super(text);
    this.word = word;
  }
}

export class Server {
  /// `as` are headers that say who asks.
  constructor(url, as = {}) {
    this.url = url;
    this.as = as;
  }

  /// Asks; `known` statuses are answers, too.
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

  /// Sends bytes and tells how many are gone: a request of the older kind, because the newer one cannot tell.
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

/// Does it, and again after a while where the server is busy.
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

/// Who asks with a token, if there is one.
export const bearer = (token) => (token ? { Authorization: `Bearer ${token}` } : {});

/// Answers a page's questions, one after the other: there is one client.
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
