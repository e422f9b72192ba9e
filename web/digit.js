// A pad for drawing a digit, and its 28 x 28 grey pixels for the network. As in MNIST, a digit
// fills 20 x 20 pixels around its centre of mass.

const SIDE = 28;
const BOX = 20;
const PEN = 0.085; // of the pad's width

export class Pad {
  /// Calls `changed` after each change of the drawing.
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    this.context = canvas.getContext("2d", { willReadFrequently: true });
    this.empty = true;
    this.last = null;
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (this.last = null));
    canvas.addEventListener("keydown", (event) => this.typed(event));
  }

  place({ clientX, clientY }) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    return [((clientX - left) / width) * this.canvas.width, ((clientY - top) / height) * this.canvas.height];
  }

  begin(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture?.(event.pointerId);
    this.last = this.place(event);
    this.line(this.last);
  }

  move(event) {
    if (this.last === null) return;
    const all = event.getCoalescedEvents?.() ?? [];
    for (const one of all.length > 0 ? all : [event]) this.line(this.place(one));
  }

  line(to) {
    const { context, canvas } = this;
    context.strokeStyle = "#000"; // only the place of ink counts; the page sets the visible colour
    Object.assign(context, { lineWidth: PEN * canvas.width, lineCap: "round", lineJoin: "round" });
    context.beginPath();
    context.moveTo(...this.last);
    context.lineTo(...to);
    context.stroke();
    this.last = to;
    this.is(false);
  }

  is(empty) {
    this.empty = empty;
    this.changed();
  }

  clear() {
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.is(true);
  }

  /// A digit's key draws that digit, for people with a keyboard only.
  typed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^[0-9]$/.test(event.key)) this.write(event.key);
    else if (["Delete", "Backspace"].includes(event.key)) this.clear();
    else return;
    event.preventDefault();
  }

  write(digit) {
    const { context, canvas } = this;
    this.clear();
    context.fillStyle = "#000";
    Object.assign(context, { font: `${0.8 * canvas.height}px "Segoe Print", "Comic Sans MS", system-ui, sans-serif`, textAlign: "center", textBaseline: "middle" });
    context.fillText(digit, canvas.width / 2, canvas.height / 2);
    this.is(false);
  }

  /// Loads a picture, dark on light or light on dark.
  async load(file) {
    const { context, canvas } = this;
    const picture = await createImageBitmap(file);
    const scale = Math.min(canvas.width / picture.width, canvas.height / picture.height);
    const [width, height] = [scale * picture.width, scale * picture.height];
    const sketch = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    const [left, top] = [(canvas.width - width) / 2, (canvas.height - height) / 2];
    sketch.drawImage(picture, left, top, width, height);
    const image = sketch.getImageData(0, 0, canvas.width, canvas.height);
    const grey = (at) => (0.299 * image.data[at] + 0.587 * image.data[at + 1] + 0.114 * image.data[at + 2]) / 255;
    const inside = [];
    for (let at = 0; at < image.data.length; at += 4) if (image.data[at + 3] > 0) inside.push(at);
    const mean = inside.reduce((sum, at) => sum + grey(at), 0) / Math.max(1, inside.length);
    for (const at of inside) {
      const ink = mean > 0.5 ? 1 - grey(at) : grey(at);
      image.data.set([0, 0, 0, ink > 0.15 ? 255 * ink : 0], at);
    }
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.putImageData(image, 0, 0);
    this.is(inside.length === 0);
  }

  /// The pixels, row by row; 0 is no ink.
  pixels() {
    const { width, height } = this.canvas;
    const ink = this.context.getImageData(0, 0, width, height).data.filter((_, at) => at % 4 === 3);
    const at = (x, y) => (x < 0 || y < 0 || x >= width || y >= height ? 0 : ink[y * width + x]);
    let [left, top, right, bottom] = [width, height, -1, -1];
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        if (at(x, y) > 30) [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
      }
    }
    const out = new Uint8Array(SIDE * SIDE);
    if (right < 0) return out;
    const step = Math.max(right - left + 1, bottom - top + 1) / BOX; // pad units for each pixel
    const [cx, cy] = this.centre(at, [left, top, right, bottom]);
    for (let row = 0; row < SIDE; row++) {
      for (let column = 0; column < SIDE; column++) {
        // the pixel's corner on the pad, and the mean of the ink there
        const [x0, y0] = [cx + (column - SIDE / 2) * step, cy + (row - SIDE / 2) * step];
        let [sum, count] = [0, 0];
        for (let y = Math.floor(y0); y < y0 + step; y++) {
          for (let x = Math.floor(x0); x < x0 + step; x++) {
            sum += at(x, y);
            count += 1;
          }
        }
        out[row * SIDE + column] = Math.round(sum / count);
      }
    }
    return out;
  }

  centre(at, [left, top, right, bottom]) {
    let [mass, x_mass, y_mass] = [0, 0, 0];
    for (let y = top; y <= bottom; y++) {
      for (let x = left; x <= right; x++) {
        const ink = at(x, y);
        [mass, x_mass, y_mass] = [mass + ink, x_mass + ink * x, y_mass + ink * y];
      }
    }
    return [x_mass / mass + 0.5, y_mass / mass + 0.5];
  }
}

/// Draws each pixel as a square; `colour` gives red, green, blue and alpha of a value.
export function show(canvas, pixels, side, colour) {
  [canvas.width, canvas.height] = [side, side];
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  for (let i = 0; i < side * side; i++) image.data.set(colour(pixels[i] ?? 0), 4 * i);
  context.putImageData(image, 0, 0);
}
