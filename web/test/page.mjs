// Tests the display of the page of a call, without a browser: node web/test/page.mjs
import assert from "node:assert/strict";

const { Alarms } = await import(new URL("../alarms.js", import.meta.url));
const { People } = await import(new URL("../people.js", import.meta.url));

// fault 24: alarms with ticks in their texts are one alarm, with a count and the last text
const alarms = new Alarms();
for (let tick = 0; tick < 10_000; tick++) alarms.add("omitted", `the server left your packet of tick ${tick} out`, 20 * tick);
assert.deepEqual([...alarms.kinds.values()], [{ kind: "omitted", count: 10_000, text: "the server left your packet of tick 9999 out", last: 199_980 }]);
alarms.add("sum-forged", "tick 7: no", 1);
assert.deepEqual([...alarms.kinds.keys()], ["omitted", "sum-forged"], "another kind is another line");
for (let kind = 0; kind < 10_000; kind++) alarms.add(`kind ${kind}`, "text");
assert.ok(alarms.kinds.size <= 24 && alarms.kinds.has("kind 9999"), "memory is bounded");
assert.ok(alarms.remove("kind 9999") && !alarms.remove("kind 9999"));
assert.equal(alarms.add("kind 9999", "text").count, 1, "what was dismissed is counted anew");
alarms.clear();
assert.equal(alarms.kinds.size, 0);

// fault 24: after a connection ends, the page keeps nothing of members, speech, mutes or losses
const element = () => {
  const set = () => {};
  const one = { dataset: {}, style: { setProperty: set }, classList: { toggle: set, add: set }, children: [] };
  one.append = (...more) => one.children.push(...more);
  one.replaceChildren = (...more) => (one.children = more);
  Object.assign(one, { setAttribute: set, addEventListener: set, querySelector: () => element() });
  return one;
};
globalThis.document = { createElement: element };
const [list, count, now, words] = [element(), element(), element(), element()];
const people = new People(list, count, now, words, () => {});
const member = (number, name, you = false) => ({ member: number, name, speaks: true, you });
people.roster([member(0, "Bo", true), member(1, "Ada"), member(2, "Cy")], "some words");
people.talks(1, true);
people.misses(2, true);
people.hands.add(2);
people.muted.add(2);
people.waiting.set(3, "Di");
await Promise.resolve();
assert.ok(now.textContent.includes("Speaking: Ada") && count.textContent.includes("3 in the call") && words.hidden === false);
people.forget();
assert.deepEqual([list.children.length, count.textContent, now.textContent, words.hidden], [0, "Not connected", "", true]);
for (const those of ["talking", "missing", "hands", "muted", "waiting"]) assert.equal(people[those].size, 0, those);
await Promise.resolve();
assert.equal(now.textContent.includes("Ada"), false, "what was to be drawn later says nothing old");
// the next connection starts from its first messages, and announces no member as new
assert.deepEqual(people.roster([member(0, "Bo", true), member(1, "Ada")]).come, []);
assert.equal(now.textContent, "Nobody is speaking");
console.log("the page shows what holds");
