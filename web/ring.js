// A ring of samples between two threads: one writes and one reads.
//
// In an isolated page (COOP and COEP) the ring is in shared memory. It has the samples and two
// counters that only grow, modulo 2^32.

const SAMPLES = 1 << 14; // a third of a second at 48 kHz

export function ringMemory() {
  return new SharedArrayBuffer(8 + 4 * SAMPLES);
}

export class Ring {
  constructor(memory) {
    this.counters = new Uint32Array(memory, 0, 2);
    this.samples = new Float32Array(memory, 8);
  }

  /// The number of unread samples.
  level() {
    return (Atomics.load(this.counters, 1) - Atomics.load(this.counters, 0)) >>> 0;
  }

  /// Writes as many samples as fit, and returns their number.
  write(samples) {
    const at = Atomics.load(this.counters, 1);
    const count = Math.min(samples.length, SAMPLES - this.level());
    for (let i = 0; i < count; i++) this.samples[(at + i) & (SAMPLES - 1)] = samples[i];
    Atomics.store(this.counters, 1, (at + count) >>> 0);
    return count;
  }

  /// Fills `samples` as far as possible, and returns the number of read samples.
  read(samples) {
    const at = Atomics.load(this.counters, 0);
    const count = Math.min(samples.length, this.level());
    for (let i = 0; i < count; i++) samples[i] = this.samples[(at + i) & (SAMPLES - 1)];
    Atomics.store(this.counters, 0, (at + count) >>> 0);
    return count;
  }
}
