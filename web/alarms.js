// Alarms of one kind as one: a server that does wrong does so fifty times a second.

const MOST = 24; // kinds at once: there are fewer

export class Alarms {
  constructor() {
    this.kinds = new Map(); // by kind, the last that came at the end
  }

  /// Takes an alarm; answers its kind's entry: the last text, how many there were, and when the
  /// last came.
  add(kind, text, now = Date.now()) {
    const entry = this.kinds.get(kind) ?? { kind, count: 0 };
    Object.assign(entry, { text, last: now, count: entry.count + 1 });
    this.kinds.delete(kind);
    this.kinds.set(kind, entry);
    while (this.kinds.size > MOST) this.kinds.delete(this.kinds.keys().next().value);
    return entry;
  }

  /// A person has seen it, or it holds no longer: whatever comes of this kind is counted anew.
  remove(kind) {
    return this.kinds.delete(kind);
  }

  clear() {
    this.kinds.clear();
  }
}
