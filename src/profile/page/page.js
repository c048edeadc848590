"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // Tables: a click on a heading sorts the rows by it, a second one the other way.
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    const value = (row, index) => {
      const cell = row.cells[index];
      return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
    };
    headings.forEach((heading, index) => {
      heading.firstChild.addEventListener("click", () => {
        const rows = [...table.tBodies[0].rows];
        const isNumber = rows.some((row) => value(row, index) !== null);
        const next = { ascending: "descending", descending: "ascending" };
        const order = next[heading.ariaSort] || (isNumber ? "descending" : "ascending");
        const sign = order === "ascending" ? 1 : -1;
        rows.sort((a, b) =>
          isNumber
            ? sign * ((value(a, index) ?? -1) - (value(b, index) ?? -1))
            : sign * a.cells[index].textContent.localeCompare(b.cells[index].textContent),
        );
        headings.forEach((other) => { other.ariaSort = other === heading ? order : null; });
        table.tBodies[0].append(...rows);
      });
    });
  }

  // Tabs.
  for (const tabs of document.querySelectorAll(".tabs")) {
    const buttons = [...tabs.querySelectorAll("button")];
    const show = (chosen) => {
      for (const button of buttons) {
        button.ariaSelected = String(button === chosen);
        document.getElementById(button.dataset.tab).hidden = button !== chosen;
      }
    };
    tabs.setAttribute("role", "tablist");
    for (const button of buttons) {
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", button.dataset.tab);
      document.getElementById(button.dataset.tab).setAttribute("role", "tabpanel");
      button.addEventListener("click", () => show(button));
    }
    show(buttons[0]);
  }

  // Flame graphs: the clicked box gets the full width.
  for (const flame of document.querySelectorAll(".flame")) {
    const boxes = [...flame.children];
    flame.addEventListener("click", (event) => {
      const chosen = event.target.closest("button");
      if (!chosen) return;
      const [left, width] = [Number(chosen.dataset.x), Number(chosen.dataset.w)];
      for (const box of boxes) {
        const [x, w] = [Number(box.dataset.x), Number(box.dataset.w)];
        const from = Math.max((x - left) / width, 0);
        const to = Math.min((x + w - left) / width, 1);
        box.hidden = to - from < 1e-4;
        box.style.left = `${100 * from}%`;
        box.style.width = `${100 * (to - from)}%`;
      }
    });
  }

  // The timeline.
  const digits = (value) => value.toLocaleString("en-US", {
    maximumSignificantDigits: 3, useGrouping: false,
  });
  const time = (nanos) => {
    if (nanos === 0) return "0 s";
    const size = Math.abs(nanos);
    if (size < 1e3) return `${digits(nanos)} ns`;
    if (size < 1e6) return `${digits(nanos / 1e3)} µs`;
    if (size < 1e9) return `${digits(nanos / 1e6)} ms`;
    return `${digits(nanos / 1e9)} s`;
  };
  const data = document.getElementById("timeline-data");
  if (data) timeline(JSON.parse(data.textContent));

  function timeline({ end, names, lines, tracks }) {
    const canvas = document.getElementById("timeline-canvas");
    const range = document.getElementById("timeline-range");
    const details = document.getElementById("timeline-event");
    const filter = document.getElementById("timeline-filter");
    const context = canvas.getContext("2d");
    const [row, head, axis, fields] = [18, 20, 22, 8];
    const whole = Math.max(end, 1);
    let [from, to] = [0, whole];
    let height = axis;
    for (const track of tracks) {
      track.top = height + head;
      height = track.top + track.levels * row + 6;
    }
    const event = (track, at) => {
      const [start, duration, depth, name, line, colour, count, bytes] =
        track.events.slice(at, at + fields);
      return { start, duration, depth, name: names[name], line: lines[line], colour, count, bytes };
    };
    const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
    const colourOf = (number) => style(number >= 10 ? `--c${number - 10}` : `--k${number}`);
    let colours = new Map();
    const fill = (number) => {
      if (!colours.has(number)) colours.set(number, colourOf(number));
      return colours.get(number);
    };
    const matches = (found) => {
      const text = filter.value.trim().toLowerCase();
      return text === "" || `${found.name} ${found.line}`.toLowerCase().includes(text);
    };

    function draw() {
      const scale = window.devicePixelRatio || 1;
      const width = canvas.clientWidth;
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
      context.textBaseline = "middle";
      const x = (nanos) => ((nanos - from) / (to - from)) * width;
      // Ticks at multiples of 1, 2 or 5 times a power of ten.
      const raw = ((to - from) / width) * 110;
      const power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= raw);
      for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
        context.fillStyle = style("--grid");
        context.fillRect(x(tick), axis, 1, height);
        context.fillStyle = style("--soft");
        context.textAlign = x(tick) < 20 ? "left" : x(tick) > width - 20 ? "right" : "center";
        context.fillText(time(Math.round(tick * 1e3) / 1e3), x(tick), axis / 2);
      }
      context.textAlign = "left";
      const onBox = style("--on-box");
      for (const track of tracks) {
        context.fillStyle = style("--soft");
        context.font = '600 11.5px system-ui, "DejaVu Sans", sans-serif';
        context.fillText(track.title, 2, track.top - head / 2 + 1);
        context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
        // The last pixel that is painted on each level: what is smaller is not drawn twice.
        const painted = new Array(track.levels).fill(-1);
        for (let at = 0; at < track.events.length; at += fields) {
          const start = track.events[at];
          const duration = track.events[at + 1];
          if (start > to || start + duration < from) continue;
          const left = Math.max(x(start), 0);
          const right = Math.min(x(start + duration), width);
          const depth = track.events[at + 2];
          if (right < painted[depth]) continue;
          const box = Math.max(right - left - 0.5, 0.75);
          painted[depth] = left + box;
          const found = event(track, at);
          context.globalAlpha = matches(found) ? 1 : 0.15;
          context.fillStyle = fill(found.colour);
          const top = track.top + depth * row;
          context.fillRect(left, top, box, row - 2);
          if (box > 24) {
            const text = found.count > 1 ? `${found.count} events` : found.name;
            context.fillStyle = onBox;
            context.fillText(fitted(text, box - 8), left + 4, top + row / 2 - 1);
          }
        }
        context.globalAlpha = 1;
      }
      range.textContent = `${time(from)} – ${time(to)} of ${time(whole)}`;
    }

    function fitted(text, width) {
      if (context.measureText(text).width <= width) return text;
      let [low, high] = [0, text.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
        else high = middle - 1;
      }
      return low > 1 ? `${text.slice(0, low)}…` : "";
    }

    function show(newFrom, newTo) {
      const length = Math.min(Math.max(newTo - newFrom, Math.min(100, whole)), whole);
      from = Math.min(Math.max(newFrom, 0), whole - length);
      to = from + length;
      draw();
    }
    function zoom(factor, share) {
      const centre = from + (to - from) * share;
      show(centre - (centre - from) * factor, centre + (to - centre) * factor);
    }
    function at(mouse) {
      const box = canvas.getBoundingClientRect();
      const nanos = from + ((mouse.clientX - box.left) / box.width) * (to - from);
      const slack = ((to - from) / box.width) * 1.5;
      const y = mouse.clientY - box.top;
      for (const track of tracks) {
        const depth = Math.floor((y - track.top) / row);
        if (depth < 0 || depth >= track.levels) continue;
        for (let index = 0; index < track.events.length; index += fields) {
          const start = track.events[index];
          const isHere = start - slack <= nanos && nanos <= start + track.events[index + 1] + slack;
          if (isHere && track.events[index + 2] === depth) return event(track, index);
        }
      }
      return null;
    }

    let drag = null;
    canvas.addEventListener("pointerdown", (mouse) => {
      drag = { x: mouse.clientX, from, to };
      canvas.setPointerCapture(mouse.pointerId);
    });
    canvas.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("pointermove", (mouse) => {
      if (drag) {
        const moved = ((drag.x - mouse.clientX) / canvas.clientWidth) * (drag.to - drag.from);
        show(drag.from + moved, drag.to + moved);
        return;
      }
      const found = at(mouse);
      if (!found) return;
      const parts = [found.count > 1 ? `${found.count} events, first ${found.name}` : found.name];
      if (found.line) parts.push(found.line);
      parts.push(`${time(found.duration)} from ${time(found.start)}`);
      if (found.bytes) parts.push(`${found.bytes.toLocaleString("en-US")} bytes`);
      details.textContent = parts.join(" · ");
    });
    canvas.addEventListener("wheel", (wheel) => {
      if (!wheel.ctrlKey && document.activeElement !== canvas) return;
      wheel.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(wheel.deltaY > 0 ? 1.25 : 0.8, (wheel.clientX - box.left) / box.width);
    }, { passive: false });
    canvas.addEventListener("keydown", (key) => {
      const part = (to - from) / 5;
      if (key.key === "+") zoom(0.5, 0.5);
      else if (key.key === "-") zoom(2, 0.5);
      else if (key.key === "ArrowLeft") show(from - part, to - part);
      else if (key.key === "ArrowRight") show(from + part, to + part);
      else return;
      key.preventDefault();
    });
    for (const button of document.querySelectorAll("[data-zoom]")) {
      const actions = {
        in: () => zoom(0.5, 0.5), out: () => zoom(2, 0.5), all: () => show(0, whole),
      };
      button.addEventListener("click", actions[button.dataset.zoom]);
    }
    filter.addEventListener("input", draw);
    window.addEventListener("resize", draw);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      colours = new Map();
      draw();
    });
    draw();
  }

  root.dataset.ready = "true";
})();
