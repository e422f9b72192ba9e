// A fleet in a tab, and its key holder: the WebAssembly module with feature `sense`.

import { Module } from "./module.js";

const encoder = new TextEncoder();

/// A time as 8 bytes, with more behind.
function timed(ms, more = new Uint8Array()) {
  const bytes = new Uint8Array(8 + more.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(ms), true);
  bytes.set(more, 8);
  return bytes;
}

export class Sense extends Module {
  /// Makes keys, devices and the question; answers what may be told of them.
  begin(wanted) {
    return this.told("sense_new", encoder.encode(JSON.stringify(wanted)));
  }

  /// What the server is given: secrets under encryption, and keys that decrypt nothing.
  object(index) {
    return this.output(this.exports.tobari_sense_object(index));
  }

  /// What the server is told of devices.
  bundle() {
    return this.output(this.exports.tobari_sense_bundle());
  }

  /// What it is to compute.
  order() {
    return this.output(this.exports.tobari_sense_order());
  }

  /// Frames of [device, reading], …; null for a reading that no device has.
  seal(readings) {
    return this.output(this.call("sense_seal", encoder.encode(JSON.stringify(readings))));
  }

  /// The server took all of them, at this time of its clock.
  stored(ms) {
    this.call("sense_stored", timed(ms));
  }

  /// It is not known whether it did.
  lost() {
    this.exports.tobari_sense_lost();
  }

  /// Opens the result of a window: once.
  open(start, answer) {
    return this.told("sense_open", timed(start, answer));
  }

  forget() {
    this.exports.tobari_sense_forget();
  }
}
