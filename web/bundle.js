// The files of these pages, and their fingerprint. `tobari info` prints the same fingerprint for
// its own files.
//
// A malicious page can lie about its fingerprint. To be sure, download the files with another
// program and compare, take the page from an origin of your own, or use the command line.

export const FILES = [
  "alarms.js", "asking.js", "audio.js", "bins.js", "bundle.js", "call.html", "client.js", "digit.js", "dist/ask.wasm", "dist/sense.wasm", "dist/tobari-mls.wasm", "dist/tobari.wasm", "ends.js", "icon.svg",
  "infer-client.js", "infer-worker.js", "infer.html", "infer.js", "main.js", "module.js", "pages.css", "people.js", "ring.js", "scope.js",
  "search-client.js", "search-worker.js", "search.html", "search.js", "sense-client.js", "sense-worker.js", "sense.html", "sense.js", "server.js",
  "start.html", "start.js", "style.css", "vcf.js", "words.js", "worker.js",
];

const hex = (digest) => Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");

/// SHA-256 of the lines that `sha256sum` prints of these files, by name.
export async function fingerprint() {
  const lines = await Promise.all(
    FILES.map(async (name) => {
      const response = await fetch(new URL(name, import.meta.url));
      if (!response.ok) throw new Error(`${name} is missing`);
      return `${hex(await crypto.subtle.digest("SHA-256", await response.arrayBuffer()))}  ${name}\n`;
    }),
  );
  return hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(lines.join(""))));
}
