// Who asks about an image: the WebAssembly module with feature `ask`.

import { Module } from "./module.js";

export class Infer extends Module {
  /// A new key for a model: its digest in hexadecimal digits, and what the server tells of it.
  begin(digest, card) {
    const model = new Uint8Array(32 + card.length);
    model.set(digest.match(/../g).map((byte) => parseInt(byte, 16)));
    model.set(card, 32);
    return this.told("infer_new", model);
  }

  /// A key that was kept.
  take_up(kept) {
    return this.told("infer_take_up", kept);
  }

  /// The key's own bytes: secret.
  kept() {
    return this.output(this.exports.tobari_infer_kept());
  }

  /// The evaluation keys, which decrypt nothing.
  keys() {
    return this.output(this.exports.tobari_infer_keys());
  }

  /// An image, encrypted; null if it has another size.
  question(pixels) {
    return this.output(this.call("infer_question", pixels));
  }

  /// The classes that an answer tells, the likeliest first.
  answer(body) {
    return this.told("infer_answer", body).labels;
  }

  forget() {
    this.exports.tobari_infer_forget();
  }
}
