// Two pictures side by side: the server's data, and the sound that you hear. Hidden pictures cost
// nothing.

const HISTORY = 16_000; // samples: one second
const READ_MS = 500; // how long the page shows bytes as text

/// Fits a canvas to its place and clears it. Returns its context, and its size in its own pixels.
function prepare(canvas) {
  const ratio = globalThis.devicePixelRatio || 1;
  const { clientWidth, clientHeight } = canvas;
  const [width, height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

function color(canvas, name) {
  return getComputedStyle(canvas).getPropertyValue(name).trim();
}

/// Draws the lowest and highest sample of each column.
function draw(canvas, samples, scale, ink) {
  const { context, width, height } = prepare(canvas);
  context.fillStyle = color(canvas, ink);
  const middle = height / 2;
  context.beginPath();
  for (let x = 0; x < width; x++) {
    const from = Math.floor((x * samples.length) / width);
    const to = Math.max(from + 1, Math.floor(((x + 1) * samples.length) / width));
    let [low, high] = [0, 0];
    for (let i = from; i < to && i < samples.length; i++) {
      low = Math.min(low, samples[i]);
      high = Math.max(high, samples[i]);
    }
    const top = middle - (high * middle) / scale;
    context.rect(x, top, 1, Math.max(1, ((high - low) * middle) / scale));
  }
  context.fill();
}

export class Scope {
  constructor(held, heard, text) {
    [this.held, this.heard, this.text] = [held, heard, text];
    this.samples = new Int16Array(HISTORY);
    this.sum = null;
    this.written = 0;
    this.seen = new Set(); // pictures on the screen
    this.asked = false;
    const watch = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) this.seen[isIntersecting ? "add" : "delete"](target);
    });
    [held, heard].forEach((canvas) => watch.observe(canvas));
  }

  /// Adds new samples, and the last sum if there was one. The next frame of the screen draws them;
  /// a hidden page has no frames.
  push(heard, sum) {
    const fresh = heard.subarray(-HISTORY);
    this.samples.copyWithin(0, fresh.length);
    this.samples.set(fresh, HISTORY - fresh.length);
    if (sum) this.sum = sum;
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame((now) => {
      this.asked = false;
      this.draw(now);
    });
  }

  draw(now) {
    if (this.seen.has(this.heard)) draw(this.heard, this.samples, 16_384, "--voice");
    if (!this.sum || !this.seen.has(this.held)) return;
    // the encrypted sum, two bytes a sample: the wave as seen without the key
    const words = new Int16Array(this.sum.length >> 1);
    for (let i = 0; i < words.length; i++) words[i] = (this.sum[2 * i] << 8) | this.sum[2 * i + 1];
    draw(this.held, words, 36_000, "--noise");
    if (now - this.written < READ_MS) return;
    this.written = now;
    const shown = Array.from(this.sum.subarray(0, 96), (byte) => byte.toString(16).padStart(2, "0"));
    this.text.textContent = `${shown.join(" ")} …`;
  }
}
