// Groups alarms of one kind, because a faulty server raises fifty a second.

const MOST = 24; // the most kinds at once; fewer exist

export class Alarms {
  constructor() {
    this.kinds = new Map(); // by kind, the latest at the end
  }

  /// Adds an alarm. Returns the entry of its kind: the last text, the count, and the time of the
  /// last alarm.
  add(kind, text, now = Date.now()) {
    const entry = this.kinds.get(kind) ?? { kind, count: 0 };
    Object.assign(entry, { text, last: now, count: entry.count + 1 });
    this.kinds.delete(kind);
    this.kinds.set(kind, entry);
    while (this.kinds.size > MOST) this.kinds.delete(this.kinds.keys().next().value);
    return entry;
  }

  /// Removes a kind, after a person has seen it or its cause is gone. Counting starts again.
  remove(kind) {
    return this.kinds.delete(kind);
  }

  clear() {
    this.kinds.clear();
  }
}
