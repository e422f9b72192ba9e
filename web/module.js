// A WebAssembly module of `web/client`, behind functions with JavaScript's own types.
//
// The modules import nothing. The page gives them randomness, and they reach nothing by themselves.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Module {
  /// `module` is a compiled module; `randomness` fills a Uint8Array.
  static async make(module, randomness) {
    const instance = await WebAssembly.instantiate(module, {});
    const client = new this(instance.exports);
    const seed = randomness(new Uint8Array(32));
    if (client.call("seed", seed) !== 1) throw new Error("the client takes no randomness");
    seed.fill(0);
    return client;
  }

  constructor(exports) {
    this.exports = exports;
  }

  /// Calls a function with an input, and returns its number.
  call(name, bytes) {
    const { memory, tobari_reserve } = this.exports;
    const place = tobari_reserve(bytes.length) >>> 0;
    if (place === 0) throw new Error("too long for the client");
    new Uint8Array(memory.buffer, place, bytes.length).set(bytes);
    return this.exports[`tobari_${name}`](bytes.length);
  }

  /// The output of a function that returned `length`; null if there is none.
  output(length) {
    if (length < 0) return null;
    return new Uint8Array(this.exports.memory.buffer, this.exports.tobari_output() >>> 0, length).slice();
  }

  json(name, input) {
    const out = this.output(this.call(name, encoder.encode(input)));
    return out && JSON.parse(decoder.decode(out));
  }

  /// Calls a function that returns JSON, and throws an `error` in it.
  told(name, bytes) {
    const out = this.output(this.call(name, bytes));
    const told = out ? JSON.parse(decoder.decode(out)) : { error: "the client has no randomness" };
    if (told.error) throw new Error(told.error);
    return told;
  }
}
