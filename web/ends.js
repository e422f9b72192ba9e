// The end of a call at the sound card: an AudioWorklet that passes on microphone samples and plays
// samples from the worker.
//
// The worklet computes nothing. Samples go through rings in shared memory. Without shared memory
// they go with the messages. A message every 256 samples wakes the worker, with the time and the
// number of samples that stayed silent.

import { Ring } from "./ring.js";

const WAKE = 2; // blocks of 128 samples

class Ends extends AudioWorkletProcessor {
  constructor(options) {
    super();
    const { capture, playback } = options.processorOptions;
    this.capture = capture ? new Ring(capture) : null;
    this.playback = playback ? new Ring(playback) : null;
    this.queue = []; // without shared memory: samples to play, and the place in the first block
    this.place = 0;
    this.taken = 0;
    this.heard = [];
    this.blocks = 0;
    this.missing = 0;
    this.worker = null;
    this.silence = new Float32Array(128);
    this.port.onmessage = ({ data }) => {
      this.worker = data;
      this.worker.onmessage = ({ data: samples }) => this.queue.push(samples);
    };
  }

  process(inputs, outputs) {
    const output = outputs[0][0];
    const input = inputs[0][0] ?? this.silence;
    const given = this.playback ? this.playback.read(output) : this.take(output);
    output.fill(0, given);
    this.missing += output.length - given;
    for (const other of outputs[0].slice(1)) other.set(output);
    if (this.capture) this.capture.write(input);
    else this.heard.push(input.slice());
    if (++this.blocks % WAKE === 0) this.wake();
    return true;
  }

  take(output) {
    let given = 0;
    while (given < output.length && this.queue.length > 0) {
      const first = this.queue[0];
      const count = Math.min(output.length - given, first.length - this.place);
      output.set(first.subarray(this.place, this.place + count), given);
      given += count;
      this.place += count;
      if (this.place === first.length) {
        this.queue.shift();
        this.place = 0;
      }
    }
    this.taken += given;
    return given;
  }

  wake() {
    const message = { at: Date.now(), missing: this.missing, taken: this.taken, heard: null };
    this.missing = 0;
    if (!this.capture) {
      message.heard = new Float32Array(this.heard.length * 128);
      this.heard.forEach((block, index) => message.heard.set(block, index * 128));
      this.heard = [];
    }
    this.worker?.postMessage(message);
  }
}

registerProcessor("tobari-ends", Ends);
