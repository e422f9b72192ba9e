// A client that asks about an image: the WebAssembly module with feature `ask`.

import { Module } from "./module.js";

export class Infer extends Module {
  /// Makes a key for a model. Takes the model's digest in hexadecimal, and the server's
  /// description.
  begin(digest, card) {
    const model = new Uint8Array(32 + card.length);
    model.set(digest.match(/../g).map((byte) => parseInt(byte, 16)));
    model.set(card, 32);
    return this.told("infer_new", model);
  }

  /// Loads a stored key.
  take_up(kept) {
    return this.told("infer_take_up", kept);
  }

  /// The bytes of the key. They are secret.
  kept() {
    return this.output(this.exports.tobari_infer_kept());
  }

  /// The evaluation keys, which decrypt nothing.
  keys() {
    return this.output(this.exports.tobari_infer_keys());
  }

  /// An encrypted image; null for a wrong size.
  question(pixels) {
    return this.output(this.call("infer_question", pixels));
  }

  /// The classes of an answer, the likeliest first, and whether the errors of encryption may
  /// exchange the first two.
  answer(body) {
    return this.told("infer_answer", body);
  }

  forget() {
    this.exports.tobari_infer_forget();
  }
}
