// Numbered questions of a page to its worker, so that each answer finds its caller.

/// Returns a function that asks `worker` and waits for the answer. `heard` gets the worker's other
/// messages.
export function asking(worker, heard, failed) {
  const asked = new Map();
  let questions = 0;
  worker.onmessage = ({ data }) => {
    if (data.answer === undefined) return heard(data);
    const { resolve, reject } = asked.get(data.answer) ?? {};
    asked.delete(data.answer);
    if (data.error) reject?.(Object.assign(new Error(data.error), { word: data.word }));
    else resolve?.(data.value);
  };
  worker.onerror = () => failed("the client has failed: reload the page");
  return (what, details = {}) => {
    const id = ++questions;
    return new Promise((resolve, reject) => {
      asked.set(id, { resolve, reject });
      worker.postMessage({ ask: what, id, ...details });
    });
  };
}
