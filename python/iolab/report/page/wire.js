"use strict";
// Draws rates per window at any scale. Windows lie in the page as blocks of each scale; a block is unpacked when a view needs it.
(() => {
  const BLOCK = 65536;
  const LARGEST = 65535;
  const LEFT = 70;
  const BOTTOM = 26;
  const TOP = 8;
  const CLOSER = 2;
  const canUnpack = typeof DecompressionStream === "function";

  const unpacked = new Map();
  const unpack = (id, ready) => {
    if (unpacked.has(id)) return unpacked.get(id);
    unpacked.set(id, null);
    const text = document.getElementById(id).textContent;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    new Response(stream).arrayBuffer().then((buffer) => {
      unpacked.set(id, new Uint16Array(buffer));
      ready();
    });
    return null;
  };

  const written = (value, units) => {
    const [size, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units[units.length - 1];
    return `${Number((value / size).toPrecision(6))} ${unit}`;
  };
  const RATES = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]];
  const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const steps = (low, high, most) => {
    const raw = (high - low) / Math.max(most, 1);
    const size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((times) => times * size).find((each) => each >= raw);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
    return [found, step];
  };
  // Neighbouring ticks differ: their unit follows the step, not the time since the begin.
  const time = (value, step) => {
    const fine = TIMES.find(([least]) => step >= least) ?? TIMES[3];
    if (Math.abs(value) < 1e5 * fine[0]) return `${Number((value / fine[0]).toFixed(3))} ${fine[1]}`;
    return `${(value / 1e9).toFixed(Math.max(0, Math.ceil(-Math.log10(step / 1e9))))} s`;
  };

  class Chart {
    constructor(place) {
      this.place = place;
      this.canvas = place.querySelector("canvas");
      this.shapes = [...place.querySelectorAll(".w-shape")].map((each) => JSON.parse(each.textContent));
      this.notes = [...place.querySelectorAll(".w-coarse")];
      this.choose = place.querySelector("select");
      this.take(0);
      this.choose?.addEventListener("change", () => this.take(this.choose.selectedIndex));
      for (const button of place.querySelectorAll("button")) button.addEventListener("click", () => this.act(button.dataset.act));
      this.canvas.addEventListener("keydown", (event) => this.key(event));
      this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
      this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    }

    take(index) {
      const span = this.shape ? [this.from, this.until] : null;
      this.shape = this.shapes[index];
      const { begin, levels } = this.shape;
      this.end = begin + levels[0].points * levels[0].span;
      [this.from, this.until] = span ?? [begin, this.end];
      this.notes.forEach((note, at) => { note.hidden = at !== index; });
      this.show(this.from, this.until);
    }

    show(from, until) {
      const { begin, levels } = this.shape;
      const shortest = levels[this.shape.from].span * 8;
      const length = Math.min(Math.max(until - from, shortest), this.end - begin);
      const middle = (from + until) / 2;
      this.from = Math.min(Math.max(middle - length / 2, begin), this.end - length);
      this.until = this.from + length;
      this.ask();
    }

    ask() {
      if (this.asked) return;
      this.asked = true;
      requestAnimationFrame(() => { this.asked = false; this.draw(); });
    }

    zoom(factor, at = (this.from + this.until) / 2) {
      this.show(at - (at - this.from) / factor, at + (this.until - at) / factor);
    }

    move(share) {
      const by = (this.until - this.from) * share;
      this.show(this.from + by, this.until + by);
    }

    act(what) {
      const actions = {
        closer: () => this.zoom(CLOSER), farther: () => this.zoom(1 / CLOSER),
        earlier: () => this.move(-0.25), later: () => this.move(0.25),
        whole: () => this.show(this.shape.begin, this.end),
      };
      actions[what]();
    }

    key(event) {
      const keys = { "+": "closer", "=": "closer", "-": "farther", ArrowLeft: "earlier", ArrowRight: "later", 0: "whole" };
      if (!keys[event.key]) return;
      event.preventDefault();
      this.act(keys[event.key]);
    }

    wheel(event) {
      // Whoever scrolls the page must get past the chart: only the one in use takes the wheel.
      if (document.activeElement !== this.canvas) return;
      event.preventDefault();
      const share = (event.offsetX - LEFT) / Math.max(this.canvas.clientWidth - LEFT, 1);
      this.zoom(2 ** (-event.deltaY / 240), this.from + (this.until - this.from) * Math.min(Math.max(share, 0), 1));
    }

    drag(event) {
      this.canvas.focus({ preventScroll: true });
      const { from, until } = this;
      const scale = (until - from) / Math.max(this.canvas.clientWidth - LEFT, 1);
      const follow = (moved) => this.show(from - (moved.clientX - event.clientX) * scale, until - (moved.clientX - event.clientX) * scale);
      const stop = () => { this.canvas.removeEventListener("pointermove", follow); };
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.addEventListener("pointermove", follow);
      this.canvas.addEventListener("pointerup", stop, { once: true });
      this.canvas.addEventListener("pointercancel", stop, { once: true });
    }

    // Of the scales that are there the coarsest whose points are no wider than a column, so that a view needs few points.
    level(column) {
      const { levels, from } = this.shape;
      let at = levels.length - 1;
      while (at > from && levels[at].span > column) at -= 1;
      return at;
    }

    // The least, sum and largest of each column; null where blocks are still being unpacked.
    columns(at, width) {
      const { begin, levels, id } = this.shape;
      const { span, points, parts } = levels[at];
      const first = Math.max(Math.floor((this.from - begin) / span), 0);
      const last = Math.min(Math.ceil((this.until - begin) / span), points) - 1;
      let whole = true;
      const blocks = new Map();
      for (let number = Math.floor(first / BLOCK); number <= Math.floor(last / BLOCK); number += 1) {
        const found = unpack(`${id}-${at}-${number}`, () => this.ask());
        if (found) blocks.set(number, found);
        else whole = false;
      }
      if (!whole) return null;
      const [low, mean, high, count] = [0, 1, 2, 3].map(() => new Float64Array(width));
      low.fill(Infinity);
      const scale = width / (this.until - this.from);
      for (let point = first; point <= last; point += 1) {
        const block = blocks.get(Math.floor(point / BLOCK));
        const size = block.length / parts;
        const place = point % BLOCK;
        const least = block[place];
        const middle = block[place + (parts > 1 ? size : 0)];
        const most = block[place + (parts > 1 ? 2 * size : 0)];
        const left = Math.max(Math.floor((begin + point * span - this.from) * scale), 0);
        const right = Math.min(Math.max(Math.ceil((begin + (point + 1) * span - this.from) * scale), left + 1), width);
        for (let column = left; column < right; column += 1) {
          low[column] = Math.min(low[column], least);
          high[column] = Math.max(high[column], most);
          mean[column] += middle;
          count[column] += 1;
        }
      }
      return { low, mean, high, count };
    }

    draw() {
      const width = Math.max(this.canvas.clientWidth, 200);
      const height = this.canvas.clientHeight;
      const sharp = window.devicePixelRatio || 1;
      [this.canvas.width, this.canvas.height] = [Math.round(width * sharp), Math.round(height * sharp)];
      const pen = this.canvas.getContext("2d");
      pen.scale(sharp, sharp);
      const columns = Math.floor(width - LEFT);
      let at = this.level((this.until - this.from) / columns);
      let found = canUnpack ? this.columns(at, columns) : null;
      while (!found && canUnpack && at < this.shape.levels.length - 1) {
        at += 1;
        found = this.columns(at, columns);
      }
      const top = found ? Math.max(...found.high, 1) : LARGEST;
      this.axes(pen, width, height, (top / LARGEST) * this.shape.top);
      if (found) this.course(pen, found, top, height);
      this.canvas.dataset.drawn = found ? String(this.shape.levels[at].span) : "";
    }

    colours() {
      const style = getComputedStyle(this.canvas);
      return (name) => style.getPropertyValue(name).trim();
    }

    axes(pen, width, height, top) {
      const colour = this.colours();
      pen.font = "12px system-ui, sans-serif";
      pen.lineWidth = 1;
      pen.strokeStyle = colour("--line");
      pen.fillStyle = colour("--muted");
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      for (const rate of steps(0, top, 4)[0]) {
        const y = Math.round(height - BOTTOM - (rate / top) * (height - BOTTOM - TOP)) + 0.5;
        pen.beginPath();
        pen.moveTo(LEFT, y);
        pen.lineTo(width, y);
        pen.stroke();
        pen.fillText(written(rate, RATES), LEFT - 6, Math.max(y, TOP));
      }
      pen.textAlign = "center";
      pen.textBaseline = "alphabetic";
      const [places, step] = steps(this.from, this.until, Math.max((width - LEFT) / 110, 2));
      for (const place of places) {
        const x = LEFT + ((place - this.from) / (this.until - this.from)) * (width - LEFT);
        const label = time(place, step);
        const half = pen.measureText(label).width / 2;
        if (x - half >= LEFT - 20 && x + half <= width) pen.fillText(label, x, height - 8);
      }
    }

    course(pen, { low, mean, high, count }, top, height) {
      const colour = this.colours();
      const y = (value) => height - BOTTOM - (value / top) * (height - BOTTOM - TOP);
      pen.fillStyle = colour("--accent");
      pen.globalAlpha = 0.32;
      for (let column = 0; column < low.length; column += 1) {
        if (count[column]) pen.fillRect(LEFT + column, y(high[column]), 1, Math.max(y(low[column]) - y(high[column]), 1));
      }
      pen.globalAlpha = 1;
      pen.strokeStyle = colour("--accent");
      pen.lineWidth = 1.4;
      pen.beginPath();
      let on = false;
      for (let column = 0; column < low.length; column += 1) {
        if (!count[column]) { on = false; continue; }
        const place = [LEFT + column + 0.5, y(mean[column] / count[column])];
        if (on) pen.lineTo(...place);
        else pen.moveTo(...place);
        on = true;
      }
      pen.stroke();
    }
  }

  const charts = [];
  const open = (details) => {
    if (!details.open || details.dataset.drawn) return;
    details.dataset.drawn = "yes";
    for (const place of details.querySelectorAll(".wire")) charts.push(new Chart(place));
  };
  for (const details of document.querySelectorAll("details.on-wire")) {
    details.addEventListener("toggle", () => open(details));
    open(details);
  }
  const again = () => charts.forEach((chart) => chart.ask());
  window.addEventListener("resize", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  for (const note of document.querySelectorAll(".no-unpack")) note.hidden = canUnpack;
})();
