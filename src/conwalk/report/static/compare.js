// Several models side by side: curves over relative depth, and all their heads as boxes.
(function (conwalk) {
  "use strict";
  const tint = (i) => conwalk.colour(`series-${i + 1}`);
  const there = (course) => course !== null && course.values.some((v) => v !== null);

  // Lines are not drawn from one stack of layers into the next: there depth starts again.
  function broken(course, values) {
    const x = []; const y = [];
    values.forEach((value, i) => {
      if (i > 0 && course.depth[i] <= course.depth[i - 1]) { x.push(course.depth[i]); y.push(null); }
      x.push(course.depth[i]); y.push(value);
    });
    return { x, y };
  }

  function words(quantity, course, model, i) {
    const value = course.values[i];
    const unit = quantity.unit === "1" ? "" : ` ${conwalk.escape(quantity.unit)}`;
    const chance = course.chance ? course.chance[i] : null;
    return [
      `<b>${conwalk.escape(model)}</b>, layer ${conwalk.escape(course.layers[i])}`,
      `${conwalk.escape(quantity.title)}: <b>${conwalk.short(value)}</b>${quantity.relative ? " × chance" : unit}`,
      chance === null ? "" : `chance: ${conwalk.short(chance)}${course.sd && course.sd[i] !== null ? ` ± ${conwalk.short(course.sd[i])}` : ""}`,
    ].filter(Boolean).join("<br>");
  }

  function band(course, colour) {
    const low = course.chance.map((v, i) => (v === null || course.sd[i] === null ? null : v - 2 * course.sd[i]));
    const high = course.chance.map((v, i) => (v === null || course.sd[i] === null ? null : v + 2 * course.sd[i]));
    const known = low.map((_, i) => i).filter((i) => low[i] !== null);
    return {
      x: [...known.map((i) => course.depth[i]), ...known.toReversed().map((i) => course.depth[i])],
      y: [...known.map((i) => low[i]), ...known.toReversed().map((i) => high[i])],
      type: "scatter", mode: "lines", fill: "toself", fillcolor: `${colour}22`, line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    };
  }

  const single = (course) => course.depth.every((v, i) => i === 0 || v > course.depth[i - 1]);

  function drawCurve(quantity) {
    const data = [];
    quantity.courses.forEach((course, m) => {
      if (!there(course)) return;
      const model = conwalk.data.models[m];
      if (course.chance && course.sd && single(course)) data.push(band(course, tint(m)));
      if (course.chance) data.push({ ...broken(course, course.chance), type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false, line: { color: tint(m), width: 1.2, dash: "dash" } });
      const texts = course.values.map((_, i) => words(quantity, course, model, i));
      const line = broken(course, course.values);
      data.push({
        ...line, text: broken(course, texts).y, type: "scatter", mode: "lines+markers", name: conwalk.escape(model),
        line: { color: tint(m), width: 2 }, marker: { size: 4, color: tint(m) }, hovertemplate: "%{text}<extra></extra>", meta: "main",
      });
    });
    return {
      data, note: quantity.relative ? "The texts differ in length: shown over chance, which is 1." : "",
      layout: {
        xaxis: { title: "relative depth", range: [-0.03, 1.03] },
        yaxis: { nticks: 5, exponentformat: "e", ...(quantity.better === "lower" ? { rangemode: "tozero" } : {}) },
        showlegend: true, hovermode: "closest",
      },
      table: () => ({
        head: ["model", "layer", "relative depth", quantity.relative ? "value over chance" : "value", "chance", "sd of chance"],
        rows: quantity.courses.flatMap((course, m) => (course === null ? [] : course.values.map((v, i) => [
          conwalk.data.models[m], course.layers[i], course.depth[i], v, course.chance ? course.chance[i] : null, course.sd ? course.sd[i] : null,
        ]))),
      }),
    };
  }

  const middle = (values) => (values ? conwalk.quantile(values, 0.5) : NaN);
  const SHARES = ["least", "10 %", "25 %", "median", "75 %", "90 %", "most"];

  function drawHeads(quantity) {
    const held = quantity.courses.map((course, m) => ({ course, m })).filter(({ course }) => course?.heads);
    if (!held.length) return { empty: "No head has a number here." };
    const data = held.map(({ course, m }) => {
      const [, low, q1, median, q3, high] = course.heads;
      const name = conwalk.escape(conwalk.data.models[m]);
      return {
        type: "box", name, x: [m], boxpoints: false, lowerfence: [low], q1: [q1], median: [median], q3: [q3], upperfence: [high],
        line: { color: tint(m), width: 1.5 }, fillcolor: `${tint(m)}2e`, width: 0.5, meta: "main", hoverinfo: "y",
      };
    });
    for (const { course, m } of held) {
      const chance = middle(course.chance);
      if (Number.isFinite(chance)) data.push({ type: "scatter", mode: "lines", x: [m - 0.35, m + 0.35], y: [chance, chance], line: { color: conwalk.colour("text"), width: 1.3, dash: "dash" }, hoverinfo: "skip", showlegend: false });
    }
    return {
      data, note: `${held.map(({ course }) => course.count).join(" and ")} heads`,
      layout: {
        xaxis: { tickmode: "array", tickvals: held.map(({ m }) => m), ticktext: held.map(({ m }) => conwalk.escape(conwalk.data.models[m])), range: [-0.6, conwalk.data.models.length - 0.4], tickangle: 0 },
        yaxis: { nticks: 5, exponentformat: "e" },
      },
      table: () => ({
        head: ["model", "heads", ...SHARES, "chance"],
        rows: held.map(({ course, m }) => [conwalk.data.models[m], course.count, ...course.heads, middle(course.chance)]),
      }),
    };
  }

  // What is folded away is drawn when it is opened.
  const KINDS = { curve: [drawCurve, 230], heads: [drawHeads, 250] };
  function make(within, wanted = () => true) {
    for (const place of within.querySelectorAll(".figure[data-label]")) {
      if (!wanted(place)) continue;
      const kind = Object.keys(KINDS).find((name) => place.classList.contains(name));
      const [draw, height] = KINDS[kind];
      const quantity = conwalk.data.quantities[place.dataset.label];
      conwalk.figure(place, { title: quantity.title, symbol: quantity.symbol, height, draw: () => draw(quantity) });
    }
  }

  async function start() {
    conwalk.data = conwalk.readData();
    await conwalk.loadPlotly();
    const folded = [...document.querySelectorAll("details:not([open])")];
    for (const box of folded) box.addEventListener("toggle", () => make(box), { once: true });
    make(document.body, (place) => !folded.some((box) => box.contains(place)));
    await conwalk.drawRest();
  }

  document.addEventListener("DOMContentLoaded", () => start().catch(conwalk.fail));
})(window.conwalk);
