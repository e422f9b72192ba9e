// A member of a live call: the WebAssembly module with feature `call`, or with `mls`, which can
// also agree on keys.

import { Module } from "./module.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Client extends Module {
  /// The links of a new room, or null.
  links(order) {
    return this.json("links", JSON.stringify(order));
  }

  /// The guests' link for a host's own link, or null.
  guests(link) {
    const out = this.output(this.call("guests", encoder.encode(link)));
    return out && decoder.decode(out);
  }

  /// The room of a link, or `{error}`.
  describe(link) {
    return this.json("describe", link);
  }

  join(start) {
    return this.json("join", JSON.stringify(start));
  }

  leave() {
    this.exports.tobari_leave();
  }

  text(message) {
    this.call("text", encoder.encode(message));
  }

  binary(bytes) {
    return this.call("binary", bytes) === 1;
  }

  capture(samples) {
    this.call("capture", new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength));
  }

  play() {
    const out = this.output(this.exports.tobari_play());
    return out && new Float32Array(out.buffer);
  }

  /// The next message to send (a string or bytes, and whether it is a packet of sound), or null. If
  /// the line is full, packets of sound are held back.
  poll(full) {
    const out = this.output(this.exports.tobari_poll(full ? 1 : 0));
    if (!out) return null;
    const body = out.subarray(1);
    return { message: out[0] === 0 ? decoder.decode(body) : body, sound: out[0] === 1 };
  }

  news() {
    const out = this.output(this.exports.tobari_news());
    return out && JSON.parse(decoder.decode(out));
  }

  say(message) {
    return this.call("say", encoder.encode(JSON.stringify(message))) === 1;
  }

  mute(muted) {
    this.exports.tobari_mute(muted ? 1 : 0);
  }

  said() {
    const out = this.output(this.exports.tobari_said());
    return out && new Int16Array(out.buffer);
  }

  heard() {
    const out = this.output(this.exports.tobari_heard());
    return out && new Int16Array(out.buffer);
  }

  peak() {
    return this.exports.tobari_peak();
  }

  depth() {
    return this.exports.tobari_depth();
  }
}
