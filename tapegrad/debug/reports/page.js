"use strict";
const data = JSON.parse(document.getElementById("report-data").textContent);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");
const short = (site) => (/:\d+$/.test(site) ? site.split(/[\\/]/).pop() : site) || "in the background";
const colour = (k) => `hsl(${(k * 137.5 + 210) % 360} ${dark.matches ? "55% 62%" : "58% 48%"})`;

function time(us) {
  if (us >= 1e6) return (us / 1e6).toPrecision(3) + " s";
  if (us >= 1e3) return (us / 1e3).toPrecision(3) + " ms";
  return us.toPrecision(3) + " µs";
}
function size(bytes) {
  for (const unit of ["bytes", "KiB", "MiB", "GiB", "TiB"]) {
    if (bytes < 1024) return (unit === "bytes" ? bytes : bytes.toFixed(1)) + " " + unit;
    bytes /= 1024;
  }
  return bytes.toFixed(1) + " PiB";
}
function surface(canvas, height) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (height) canvas.style.height = height + "px";
  canvas.width = width * ratio;
  canvas.height = (height || canvas.clientHeight) * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, sans-serif";
  return [pen, width, canvas.height / ratio];
}
function steps(low, high, most, base = 10) {
  const rough = (high - low) / most || 1;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const step = base === 2 ? power * 2 : [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

// The timeline.

/** Add what is between events: Python code that leads to the next one, which gives it its line. */
function addPython(kinds, names, events) {
  const kind = kinds.push("python") - 1, name = names.push("Python before this line's operation") - 1;
  let last = 0;
  for (const e of [...events].sort((a, b) => a[3] - b[3])) {
    if (kinds[e[0]] === "compile") continue;
    if (e[3] > last) events.push([kind, name, e[2], last, e[3] - last]);
    last = Math.max(last, e[3] + e[4]);
  }
}

const LANES = {
  python: "Python", data: "data", call: "eager functions", record: "recording", program: "compiled functions",
  sweep: "backward passes", kernel: "operations", compile: "compiling",
};
const timeline = (() => {
  const canvas = document.getElementById("chart-timeline");
  if (!canvas) return null;
  const { kinds, names, sites, texts, events } = data.timeline;
  addPython(kinds, names, events);
  const lanes = Object.keys(LANES).filter((kind) => kinds.includes(kind));
  const laneOf = kinds.map((kind) => lanes.indexOf(kind));
  const last = events.reduce((end, e) => Math.max(end, e[3] + e[4]), 1);
  let from = 0, to = last, chosen = -1;
  const LANE = 46, TOP = 22;

  function draw() {
    const [pen, width, height] = surface(canvas, TOP + lanes.length * LANE + 6);
    const scale = width / (to - from);
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = css("--soft");
    for (const at of steps(from, to, Math.max(2, width / 110))) {
      const x = (at - from) * scale;
      pen.fillText(time(at), x + 3, 14);
      pen.fillRect(x, 0, 1, 5);
    }
    lanes.forEach((kind, k) => {
      pen.fillStyle = css("--rule");
      pen.fillRect(0, TOP + k * LANE, width, 1);
    });
    events.forEach((e, k) => {
      const x = (e[3] - from) * scale, w = e[4] * scale;
      if (x > width || x + w < 0) return;
      pen.fillStyle = k === chosen ? css("--ink") : colour(e[2]);
      pen.fillRect(x, TOP + laneOf[e[0]] * LANE + 18, Math.max(w, 0.7), LANE - 22);
      if (w > 60) {
        pen.save();
        pen.beginPath();
        pen.rect(x, TOP, w, height);
        pen.clip();
        pen.fillStyle = k === chosen ? css("--paper") : "#fff";
        pen.fillText(names[e[1]], Math.max(x, 0) + 4, TOP + laneOf[e[0]] * LANE + 34);
        pen.restore();
      }
    });
    pen.fillStyle = css("--soft");
    lanes.forEach((kind, k) => pen.fillText(LANES[kind], 4, TOP + k * LANE + 13));
  }
  function zoom(factor, x = 0.5) {
    const middle = from + (to - from) * x;
    const width = Math.min(last, Math.max(1, (to - from) * factor));
    from = Math.max(0, Math.min(last - width, middle - width * x));
    to = from + width;
    draw();
  }
  function move(by) {
    const width = to - from;
    from = Math.max(0, Math.min(last - width, from + by));
    to = from + width;
    draw();
  }
  function choose(x, y) {
    const box = canvas.getBoundingClientRect();
    const at = from + ((x - box.left) / box.width) * (to - from);
    const lane = Math.floor((y - box.top - TOP) / LANE);
    const near = ((to - from) / box.width) * 4;
    let best = -1, distance = near;
    events.forEach((e, k) => {
      if (laneOf[e[0]] !== lane) return;
      const away = at < e[3] ? e[3] - at : Math.max(0, at - e[3] - e[4]);
      if (away < distance || (away === 0 && distance === 0 && best >= 0 && e[4] < events[best][4])) {
        best = k;
        distance = away;
      }
    });
    chosen = best;
    const box2 = document.getElementById("detail");
    box2.textContent = "\u00a0";
    if (best >= 0) {
      const e = events[best];
      box2.textContent = `${names[e[1]]}: ${time(e[4])}, at ${time(e[3])}, ${short(sites[e[2]])}`;
      if (texts[e[2]]) {
        const code = document.createElement("code");
        code.textContent = texts[e[2]];
        box2.append(document.createElement("br"), code);
      }
    }
    draw();
  }
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    choose(event.clientX, event.clientY);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") choose(event.clientX, event.clientY);
      return;
    }
    const width = canvas.clientWidth;
    if (fingers.size === 2) {
      const other = [...fingers.values()].find((one) => one.pointerId !== event.pointerId);
      const was = Math.abs(before.clientX - other.clientX) + 1;
      const is = Math.abs(event.clientX - other.clientX) + 1;
      zoom(was / is, (event.clientX + other.clientX) / 2 / width);
    } else {
      move(((before.clientX - event.clientX) / width) * (to - from));
    }
    fingers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      move((event.deltaX / canvas.clientWidth) * (to - from));
    } else {
      const box = canvas.getBoundingClientRect();
      zoom(Math.exp(event.deltaY / 300), (event.clientX - box.left) / box.width);
    }
    event.preventDefault();
  }, { passive: false });
  const does = {
    in: () => zoom(0.5), out: () => zoom(2), all: () => zoom(Infinity),
    left: () => move(-(to - from) / 3), right: () => move((to - from) / 3), trace: saveTrace,
  };
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", does[button.dataset.do]);
  }
  return draw;
})();

function saveTrace() {
  const { kinds, names, sites, events } = data.timeline;
  const traceEvents = events.map((e) => ({
    ph: "X", name: names[e[1]], cat: kinds[e[0]], pid: 1,
    tid: { compile: 2, python: 3 }[kinds[e[0]]] || 1,
    ts: e[3], dur: e[4], args: { line: sites[e[2]] },
  }));
  const text = JSON.stringify({ traceEvents, displayTimeUnit: "ms" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "trace.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Curves.

function axes(pen, width, height, [low, high], [bottom, top], horizontal, vertical, radix) {
  const left = 62, right = width - 10, base = height - 22;
  const x = (value) => left + ((value - low) / (high - low || 1)) * (right - left);
  const y = (value) => base - ((value - bottom) / (top - bottom || 1)) * (base - 10);
  pen.textAlign = "right";
  for (const at of steps(bottom, top, 4, radix)) {
    pen.fillStyle = css("--rule");
    pen.fillRect(left, y(at), right - left, 1);
    pen.fillStyle = css("--soft");
    pen.fillText(vertical(at), left - 5, y(at) + 4);
  }
  pen.textAlign = "center";
  for (const at of steps(low, high, Math.max(2, width / 120))) {
    pen.fillText(horizontal(at), x(at), height - 6);
  }
  return [x, y];
}
function drawMemory() {
  const canvas = document.getElementById("chart-memory");
  if (!canvas) return;
  const { milliseconds, bands } = data.memory;
  const [pen, width, height] = surface(canvas);
  const totals = milliseconds.map((_, k) => bands.reduce((sum, band) => sum + band.bytes[k], 0));
  const top = Math.max(1, ...totals) * 1.05;
  const times = [milliseconds[0], milliseconds[milliseconds.length - 1]];
  const [x, y] = axes(pen, width, height, times, [0, top], (ms) => time(ms * 1e3), size, 2);
  const below = milliseconds.map(() => 0);
  const legend = document.getElementById("legend-memory");
  legend.textContent = "";
  bands.forEach((band, n) => {
    pen.beginPath();
    milliseconds.forEach((ms, k) => pen.lineTo(x(ms), y(below[k] + band.bytes[k])));
    for (let k = milliseconds.length - 1; k >= 0; k--) pen.lineTo(x(milliseconds[k]), y(below[k]));
    pen.fillStyle = colour(n);
    pen.fill();
    band.bytes.forEach((bytes, k) => (below[k] += bytes));
    const entry = document.createElement("span"), mark = document.createElement("i");
    mark.style.background = colour(n);
    entry.append(mark, `${short(band.name)}: at most ${size(Math.max(...band.bytes))}`);
    entry.title = band.name;
    legend.append(entry);
  });
  if (data.memory.process.length) {
    const most = Math.max(...data.memory.process.map((point) => point[1]));
    legend.append(`The process had up to ${size(most)}, with Python and all libraries.`);
  }
}
function drawSeries() {
  const place = document.getElementById("charts-series");
  if (!place) return;
  place.textContent = "";
  for (const one of data.series) {
    const card = document.createElement("div"), head = document.createElement("h3");
    const canvas = document.createElement("canvas"), note = document.createElement("small");
    card.className = "card";
    head.textContent = one.name;
    const lastValue = one.points[one.points.length - 1][1];
    note.textContent = `${short(one.site)}; ${one.count} values, the last is ${lastValue.toPrecision(5)}`;
    if (one.not_finite) note.textContent += `; ${one.not_finite} were NaN or infinite`;
    card.append(head, canvas, note);
    place.append(card);
    const [pen, width, height] = surface(canvas);
    const xs = one.points.map((p) => p[0]), ys = one.points.map((p) => p[1]);
    const room = (Math.max(...ys) - Math.min(...ys) || Math.abs(ys[0]) || 1) * 0.05;
    const range = [Math.min(...ys) - room, Math.max(...ys) + room];
    const [x, y] = axes(pen, width, height, [xs[0], xs[xs.length - 1]], range,
      (at) => String(Math.round(at)), (at) => String(Number(at.toPrecision(4))));
    pen.strokeStyle = pen.fillStyle = css("--accent");
    pen.lineWidth = 1.5;
    pen.beginPath();
    one.points.forEach((p) => pen.lineTo(x(p[0]), y(p[1])));
    pen.stroke();
    if (one.points.length === 1) pen.fillRect(x(xs[0]) - 2, y(ys[0]) - 2, 4, 4);
  }
}
function drawAll() {
  if (timeline) timeline();
  drawMemory();
  drawSeries();
}
drawAll();
addEventListener("resize", drawAll);
dark.addEventListener("change", drawAll);
