// The members of the call. Members send their names sealed, so the server knows none.

const MOST = 240; // shown at once; a room may have a thousand members

const initials = (name) =>
  name
    .split(/\s+/)
    .filter(Boolean)
    .slice(0, 2)
    .map((word) => Array.from(word)[0].toUpperCase())
    .join("") || "·";

/// A hue for a name, the same on every member's screen.
function hue(name, member) {
  let sum = member * 47;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return sum % 360;
}

export class People {
  /// A host's buttons call `act(action, member)`.
  constructor(list, count, now, words, act) {
    [this.list, this.count, this.now, this.said, this.act] = [list, count, now, words, act];
    this.members = [];
    this.words = null; // the room's words, if its members agree on keys
    this.talking = new Set();
    this.hands = new Set();
    this.muted = new Set();
    this.missing = new Set(); // missing from the sums
    this.host = false;
    this.waiting = new Map();
    list.addEventListener("click", ({ target }) => {
      const button = target.closest("button[data-act]");
      if (button) this.act(button.dataset.act, Number(button.dataset.member));
    });
  }

  name(member) {
    const found = this.members.find((one) => one.member === member);
    return found?.name || this.waiting.get(member) || `Guest ${member + 1}`;
  }

  /// Takes a roster, with the room's words if it has any. Returns the joined and the departed
  /// members.
  roster(members, words = null) {
    const before = new Set(this.members.map((one) => one.member));
    const now = new Set(members.map((one) => one.member));
    const gone = this.members.filter((one) => !now.has(one.member));
    const come = members.filter((one) => !before.has(one.member) && !one.you);
    const first = before.size === 0;
    [this.members, this.words] = [members, words];
    for (const { member } of gone) [this.talking, this.hands, this.muted, this.missing].forEach((set) => set.delete(member));
    for (const { member } of members) this.waiting.delete(member);
    this.render();
    return { come: first ? [] : come, gone };
  }

  talks(member, talking) {
    if (talking) this.talking.add(member);
    else this.talking.delete(member);
    const item = this.list.querySelector(`li[data-member="${member}"]`);
    item?.classList.toggle("talking", talking);
    const said = item?.querySelector(".speaking");
    if (said) said.textContent = talking ? "is speaking" : "";
    this.speaking();
  }

  /// Shows the speakers in a line of their own, because the list does not show all of a thousand
  /// members.
  speaking() {
    const names = Array.from(this.talking).slice(0, 3).map((member) => this.name(member));
    const more = this.talking.size - names.length;
    this.now.textContent = names.length > 0 ? `Speaking: ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}` : "Nobody is speaking";
  }

  /// Clears the state after a connection has ended. The next connection sends all of it again.
  forget() {
    [this.talking, this.missing, this.hands, this.muted, this.waiting].forEach((those) => those.clear());
    this.roster([]);
    this.count.textContent = "Not connected";
    this.now.textContent = "";
  }

  /// Marks a member as missing from the sums, or not. Many changes at once are drawn together.
  misses(member, missing) {
    if (missing) this.missing.add(member);
    else this.missing.delete(member);
    this.drawn ??= Promise.resolve().then(() => {
      this.drawn = null;
      this.render();
    });
  }

  render() {
    const lost = ({ speaks, member }) => speaks && this.missing.has(member);
    const order = [...this.members].sort((a, b) => b.you - a.you || lost(b) - lost(a) || b.speaks - a.speaks || a.member - b.member);
    const shown = order.slice(0, MOST).map((one) => this.item(one));
    for (const [member, name] of this.waiting) shown.unshift(this.waiter(member, name));
    if (order.length > MOST) {
      const more = document.createElement("li");
      more.className = "more";
      more.textContent = `and ${order.length - MOST} more`;
      shown.push(more);
    }
    this.list.replaceChildren(...shown);
    const [speakers, missing] = [({ speaks }) => speaks, lost].map((which) => this.members.filter(which).length);
    this.count.textContent = `${this.members.length} in the call, ${speakers} with a microphone${missing > 0 ? `, ${missing} not in the sums` : ""}`;
    this.speaking();
    this.said.hidden = this.words === null;
    this.said.querySelector("code").textContent = this.words ?? "";
  }

  face(member, name) {
    const face = document.createElement("span");
    face.className = "face";
    face.style.setProperty("--hue", hue(name, member));
    face.textContent = initials(name);
    face.setAttribute("aria-hidden", "true");
    return face;
  }

  row(member, name, notes) {
    const item = document.createElement("li");
    item.dataset.member = member;
    const text = document.createElement("span");
    text.className = "who";
    const title = document.createElement("span");
    title.className = "name";
    title.textContent = name;
    const small = document.createElement("span");
    small.className = "notes";
    small.textContent = notes;
    text.append(title, small);
    item.append(this.face(member, name), text);
    return item;
  }

  item({ member, name, speaks, you, words }) {
    const shown = name || `Guest ${member + 1}`;
    const notes = [you && "you", !speaks && "listening", speaks && this.missing.has(member) && "not in the sums: nobody hears", this.muted.has(member) && "muted by you", this.hands.has(member) && "✋ wants to speak"];
    const item = this.row(member, shown, notes.filter(Boolean).join(", "));
    if (words) {
      const key = document.createElement("span");
      key.className = "notes hex";
      key.dataset.words = key.textContent = words;
      item.querySelector(".who").append(key);
    }
    const speaking = document.createElement("span");
    speaking.className = "speaking hidden";
    speaking.textContent = this.talking.has(member) ? "is speaking" : "";
    item.append(speaking);
    item.classList.toggle("talking", this.talking.has(member));
    item.classList.toggle("missing", speaks && this.missing.has(member));
    if (this.host && !you) {
      const tools = document.createElement("span");
      tools.className = "tools";
      if (speaks) tools.append(this.button(this.muted.has(member) ? "unmute" : "mute", member, shown));
      tools.append(this.button(speaks ? "quiet" : "grant", member, shown), this.button("eject", member, shown));
      item.append(tools);
    }
    return item;
  }

  waiter(member, name) {
    const item = this.row(member, name || `Guest ${member + 1}`, "waits to be let in");
    item.classList.add("waits");
    const tools = document.createElement("span");
    tools.className = "tools";
    tools.append(this.button("admit", member, name), this.button("eject", member, name));
    item.append(tools);
    return item;
  }

  button(act, member, name) {
    const words = { mute: "Mute", unmute: "Unmute", quiet: "Listen only", grant: "Let speak", eject: "Put out", admit: "Let in" };
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.act = act;
    button.dataset.member = member;
    button.textContent = words[act];
    button.setAttribute("aria-label", `${words[act]}: ${name}`);
    if (act === "admit") button.className = "primary";
    return button;
  }
}
