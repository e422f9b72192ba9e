// A fleet in a tab, and its key holder: the WebAssembly module with feature `sense`.

import { Module } from "./module.js";

const encoder = new TextEncoder();

/// A time as 8 bytes, and more bytes after it.
function timed(ms, more = new Uint8Array()) {
  const bytes = new Uint8Array(8 + more.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(ms), true);
  bytes.set(more, 8);
  return bytes;
}

export class Sense extends Module {
  /// Makes keys, devices and the question. Returns their public description.
  begin(wanted) {
    return this.told("sense_new", encoder.encode(JSON.stringify(wanted)));
  }

  /// An object for the server: encrypted secrets, or keys that decrypt nothing.
  object(index) {
    return this.output(this.exports.tobari_sense_object(index));
  }

  /// The description of the devices, for the server.
  bundle() {
    return this.output(this.exports.tobari_sense_bundle());
  }

  /// The computation, for the server.
  order() {
    return this.output(this.exports.tobari_sense_order());
  }

  /// Frames of [device, reading], …; null for an impossible reading.
  seal(readings) {
    return this.output(this.call("sense_seal", encoder.encode(JSON.stringify(readings))));
  }

  /// Records that the server stored all frames, at this time of its clock.
  stored(ms) {
    this.call("sense_stored", timed(ms));
  }

  /// Records that nobody knows whether the server stored the frames.
  lost() {
    this.exports.tobari_sense_lost();
  }

  /// Decrypts the result of a window, once.
  open(start, answer) {
    return this.told("sense_open", timed(start, answer));
  }

  forget() {
    this.exports.tobari_sense_forget();
  }
}
