"use strict";
// Draws every chart when it first becomes visible in the flow of the page, and redraws it when its width changes much.
(() => {
  const charts = [...document.querySelectorAll(".chart")];
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const sources = new Map();
  const source = (id) => {
    if (!sources.has(id)) sources.set(id, read(id));
    return sources.get(id);
  };

  const narrow = (spec, width) => {
    if (width >= 400) return spec;
    const smaller = JSON.parse(JSON.stringify(spec).replaceAll('"field":"row"', '"field":"short"'));
    for (const layer of smaller.layer) {
      if (layer.encoding.y?.axis?.labelLimit) layer.encoding.y.axis.labelLimit = Math.round(width * 0.32);
    }
    smaller.config.axisX.tickCount = 3;
    return smaller;
  };

  const draw = (place) => {
    const { spec, panels } = source(place.dataset.spec);
    const { height, data } = panels[Number(place.dataset.panel)];
    const filled = { ...narrow(spec, place.clientWidth), height, datasets: data };
    const options = { renderer: "svg", actions: false, ast: true, mode: "vega-lite", tooltip: { theme: "none" } };
    return vegaEmbed(place, filled, options).then(() => {
      place.dataset.drawn = String(place.clientWidth);
      document.querySelector(`.save[data-chart="${place.id}"]`).hidden = false;
      place.querySelectorAll("[aria-label], [aria-roledescription]").forEach((part) => part.setAttribute("aria-hidden", "true"));
    });
  };

  // A file of its own has no style sheet: colours become those of paper, the title and the key are drawn into it.
  const SVG = "http://www.w3.org/2000/svg";
  const paper = document.styleSheets[0].cssRules[0].style;
  const ROW = 18;
  const KEY_LEFT = 44;
  const text = (words, x, y, weight) => {
    const made = document.createElementNS(SVG, "text");
    const looks = { x, y, fill: "var(--ink)", "font-size": 12, "font-weight": weight, "font-family": "system-ui, sans-serif" };
    for (const [name, value] of Object.entries(looks)) made.setAttribute(name, value);
    made.textContent = words;
    return made;
  };
  const group = (x, y, ...parts) => {
    const made = document.createElementNS(SVG, "g");
    made.setAttribute("transform", `translate(${x} ${y})`);
    made.append(...parts);
    return made;
  };
  const standalone = (place) => {
    const drawn = place.querySelector("svg");
    const entries = [...document.querySelectorAll(`#${CSS.escape(place.dataset.spec.replace(/-spec$/, "-key"))} li`)];
    const lines = entries.map((entry, index) => {
      const swatch = [...entry.querySelectorAll("path")].map((path) => path.cloneNode());
      for (const path of swatch) if (path.classList.contains("k-fill")) path.setAttribute("fill", "var(--paper)");
      return group(8, ROW * (index + 1) + 6, ...swatch, text(entry.textContent.trim(), KEY_LEFT, 11, 400));
    });
    const top = ROW * (lines.length + 1) + 10;
    const width = Math.ceil(drawn.getBoundingClientRect().width) + 16;
    const height = Math.ceil(drawn.getBoundingClientRect().height) + top + 8;
    const sheet = document.createElementNS(SVG, "svg");
    const size = { width, height, viewBox: `0 0 ${width} ${height}` };
    for (const [name, value] of Object.entries(size)) sheet.setAttribute(name, value);
    const ground = document.createElementNS(SVG, "rect");
    ground.setAttribute("width", width);
    ground.setAttribute("height", height);
    ground.setAttribute("fill", "var(--paper)");
    const chart = drawn.cloneNode(true);
    chart.removeAttribute("style");
    chart.setAttribute("overflow", "visible");
    sheet.append(ground, text(place.dataset.title, 8, ROW - 2, 600), ...lines, group(8, top, chart));
    const named = (_, name) => paper.getPropertyValue(name).trim();
    return new XMLSerializer().serializeToString(sheet).replace(/var\((--[a-z0-9]+)\)/g, named);
  };
  const save = (button) => {
    const place = document.getElementById(button.dataset.chart);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([standalone(place)], { type: "image/svg+xml" }));
    link.download = `${place.dataset.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || place.id}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  for (const button of document.querySelectorAll(".save")) button.addEventListener("click", () => save(button));

  const visible = (place) => !place.closest("details:not([open])");
  const drawVisible = () => Promise.all(charts.filter((place) => visible(place) && !place.dataset.drawn).map(draw));
  for (const details of document.querySelectorAll("details.others")) details.addEventListener("toggle", drawVisible);
  drawVisible().then(
    () => { document.documentElement.dataset.charts = "drawn"; },
    (error) => { document.documentElement.dataset.charts = "failed"; console.error(error); },
  );
})();
