"use strict";
// Draws every chart when it first becomes visible in the flow of the page, and redraws it when its width changes much.
(() => {
  const ROW_HEIGHT = 40;
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
      if (layer.encoding.y?.axis) layer.encoding.y.axis.labelLimit = Math.round(width * 0.32);
    }
    smaller.config.axisX.tickCount = 3;
    return smaller;
  };

  const draw = (place) => {
    const { spec, panels } = source(place.dataset.spec);
    const { points, means } = panels[Number(place.dataset.panel)];
    const filled = { ...narrow(spec, place.clientWidth), height: means.length * ROW_HEIGHT, datasets: { points, means } };
    const options = { renderer: "svg", actions: false, ast: true, mode: "vega-lite", tooltip: { theme: "none" } };
    return vegaEmbed(place, filled, options).then(() => {
      place.dataset.drawn = String(place.clientWidth);
      place.querySelectorAll("[aria-label], [aria-roledescription]").forEach((part) => part.setAttribute("aria-hidden", "true"));
    });
  };

  const visible = (place) => !place.closest("details:not([open])");
  const drawVisible = () => Promise.all(charts.filter((place) => visible(place) && !place.dataset.drawn).map(draw));
  for (const details of document.querySelectorAll("details.others")) details.addEventListener("toggle", drawVisible);
  drawVisible().then(
    () => { document.documentElement.dataset.charts = "drawn"; },
    (error) => { document.documentElement.dataset.charts = "failed"; console.error(error); },
  );
})();
