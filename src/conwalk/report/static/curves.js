// Quantities over the depth of the model, beside what chance gives.
(function (conwalk) {
  "use strict";
  const WRAP = 46;

  // The number of every head (or the one number) of a layer; over: 0 for all prompts, then each.
  conwalk.perLayer = async function (ref, over) {
    const { values, shape } = await conwalk.array(ref);
    const axes = ref.axes;
    const size = Object.fromEntries(axes.map((axis, i) => [axis, shape[i]]));
    const inner = (size.head || 1) * (size.token || 1);
    const start = axes[0] === "prompt" ? over * size.layer * inner : 0;
    return Array.from({ length: size.layer }, (_, layer) => values.subarray(start + layer * inner, start + (layer + 1) * inner));
  };

  // One number a layer: the page's own over all prompts, the median over heads for a single one.
  conwalk.line = async function (ref, over) {
    if (!ref) return null;
    if (over === 0 || ref.axes[0] !== "prompt") return ref.line.map((v) => (v === null ? NaN : v));
    return (await conwalk.perLayer(ref, over)).map((heads) => conwalk.quantile(heads, 0.5));
  };

  const sum = (a, b, times) => a.map((v, i) => v + times * b[i]);

  // What stands beside a quantity, as lines over the layers.
  conwalk.nullLines = async function (record, over) {
    const { null: chance } = record;
    if (!chance) return {};
    const constant = chance.constant !== undefined ? conwalk.data.layers.map(() => chance.constant) : null;
    const [mean, sd, z, q, fresh] = await Promise.all(["mean", "sd", "z", "q", "fresh"].map((part) => conwalk.line(chance[part], over)));
    return { mean: mean || constant, sd, z, q, fresh };
  };

  const breaks = () => conwalk.data.layers.map((layer, i, all) => i > 0 && layer.stack !== all[i - 1].stack);

  // Lines are not drawn from one stack of layers into the next.
  function broken(values) {
    const x = []; const y = [];
    const starts = breaks();
    values.forEach((value, i) => {
      if (starts[i]) { x.push(i - 0.5); y.push(null); }
      x.push(i); y.push(Number.isNaN(value) ? null : value);
    });
    return { x, y };
  }

  function bandTraces(low, high, fill) {
    const traces = [];
    const runs = [];
    const starts = breaks();
    low.forEach((value, i) => {
      if (Number.isNaN(value) || Number.isNaN(high[i])) { runs.push([]); return; }
      if (starts[i] || !runs.length) runs.push([]);
      runs.at(-1).push(i);
    });
    for (const run of runs.filter((r) => r.length)) {
      traces.push({
        x: [...run, ...run.toReversed()], y: [...run.map((i) => low[i]), ...run.toReversed().map((i) => high[i])],
        fill: "toself", fillcolor: fill, line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false, type: "scatter",
      });
    }
    return traces;
  }

  function wrapped(text) {
    const lines = [""];
    for (const word of text.split(" ")) {
      if (lines.at(-1).length + word.length > WRAP) lines.push("");
      lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
    }
    return lines.map(conwalk.escape).join("<br>");
  }

  conwalk.layerAxis = function () {
    const { layers } = conwalk.data;
    const single = new Set(layers.map((layer) => layer.stack)).size < 2;
    const step = Math.max(1, Math.ceil(layers.length / (single ? 10 : 5)));
    const places = layers.map((_, i) => i).filter((i) => i % step === 0);
    return { title: "layer", tickmode: "array", tickvals: places, ticktext: places.map((i) => conwalk.escape(layers[i].label)), range: [-0.5, layers.length - 0.5], tickangle: 0 };
  };

  function hover(record, values, chance, name) {
    return values.map((value, i) => [
      `<b>layer ${conwalk.escape(conwalk.data.layers[i].label)}</b>${name ? `, ${conwalk.escape(name)}` : ""}`,
      `${conwalk.escape(record.title)}: <b>${conwalk.short(value)}</b>${record.unit === "1" ? "" : ` ${conwalk.escape(record.unit)}`}`,
      chance.mean ? `chance: ${conwalk.short(chance.mean[i])}${chance.sd ? ` ± ${conwalk.short(chance.sd[i])}` : ""}` : "",
      chance.z ? `z ${conwalk.signed(chance.z[i])}${chance.q ? `, q ${conwalk.short(chance.q[i])}` : ""}` : "",
      chance.fresh ? `fresh weights: ${conwalk.short(chance.fresh[i])}` : "",
      `<span style="font-size:11px">${wrapped(`${record.symbol ? `${record.symbol}: ` : ""}${record.meaning}`)}</span>`,
    ].filter(Boolean).join("<br>"));
  }

  // Everything that is drawn of one variable; colour and name tell several apart.
  conwalk.curveTraces = async function (record, over, colour = "series-1", name = "") {
    const values = await conwalk.line(record.numbers, over);
    const chance = await conwalk.nullLines(record, over);
    if (chance.mean && chance.sd && !chance.z) {
      chance.z = values.map((v, i) => (chance.sd[i] > 0 ? (v - chance.mean[i]) / chance.sd[i] : NaN));
    }
    const tint = conwalk.colour(colour);
    const alone = !name;
    const data = [];
    const table = { values, ...chance };
    if (alone && chance.mean && chance.sd) data.push(...bandTraces(sum(chance.mean, chance.sd, -2), sum(chance.mean, chance.sd, 2), conwalk.colour("null-soft")));
    if (alone && record.numbers.axes.includes("head")) {
      const heads = await conwalk.perLayer(record.numbers, over);
      [table.low, table.high] = [0.25, 0.75].map((share) => heads.map((h) => conwalk.quantile(h, share)));
      data.push(...bandTraces(table.low, table.high, `${tint}2e`));
    }
    if (alone && over === 0 && record.numbers.axes[0] === "prompt" && conwalk.data.prompts.length > 1) {
      for (let prompt = 1; prompt <= conwalk.data.prompts.length; prompt++) {
        data.push({ ...broken(await conwalk.line(record.numbers, prompt)), type: "scatter", mode: "lines", hoverinfo: "skip", opacity: 0.35, line: { color: tint, width: 1 } });
      }
    }
    if (chance.mean) data.push({ ...broken(chance.mean), type: "scatter", mode: values.length > 1 ? "lines" : "markers", hoverinfo: "skip", showlegend: false, line: { color: alone ? conwalk.colour("null") : tint, width: 1.3, dash: "dash" }, opacity: alone ? 1 : 0.6 });
    if (chance.fresh) data.push({ ...broken(chance.fresh), type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false, line: { color: conwalk.colour("null"), width: 1.3, dash: "dot" } });
    const main = broken(values);
    const texts = hover(record, values, chance, name);
    data.push({
      ...main, type: "scatter", mode: "lines+markers", name, showlegend: !alone, line: { color: tint, width: 2 }, marker: { size: values.length > 40 ? 3 : 5, color: tint },
      text: main.x.map((x) => (Number.isInteger(x) ? texts[x] : "")), hovertemplate: "%{text}<extra></extra>", meta: "main",
    });
    return { data, table, known: values.some((v) => Number.isFinite(v)) };
  };

  const HEADINGS = { values: "value", low: "lower quartile", high: "upper quartile", mean: "chance", sd: "sd of chance", z: "z", q: "q", fresh: "fresh weights" };

  conwalk.curveTable = function (tables) {
    const columns = tables.flatMap(({ name, table }) => Object.keys(HEADINGS).filter((key) => table[key]).map((key) => ({ head: [name, HEADINGS[key]].filter(Boolean).join(": "), values: table[key] })));
    return {
      head: ["layer", ...columns.map((column) => column.head)],
      rows: conwalk.data.layers.map((layer, i) => [layer.label, ...columns.map((column) => column.values[i] ?? NaN)]),
    };
  };

  conwalk.curveLayout = (own = {}) => ({ xaxis: conwalk.layerAxis(), yaxis: { nticks: 5, exponentformat: "e", ...own.yaxis }, hovermode: "x", ...own.more });

  // A defect is seen in its size only beside 0, where it would hold.
  conwalk.fromZero = (record) => (record.better === "lower" && record.range[0] === 0 ? { rangemode: "tozero" } : {});

  async function drawCurve(record, over) {
    const { data, table, known } = await conwalk.curveTraces(record, over);
    if (!known) return { empty: `Not defined for any of these layers and texts. It is ${record.meaning}.` };
    return {
      data, layout: conwalk.curveLayout({ yaxis: conwalk.fromZero(record) }), table: () => conwalk.curveTable([{ name: "", table }]),
      describe: `Line over ${conwalk.data.layers.length} layers; the numbers are in the table below`,
    };
  }

  conwalk.startCurves = function () {
    const { variables, curves } = conwalk.data;
    if (conwalk.data.allPrompts > 1) conwalk.controls("over", conwalk.selectControl("Texts", "over", conwalk.overOptions()));
    for (const group of curves) {
      const grid = document.querySelector(`[data-curves="${group.key}"]`);
      if (!grid) continue;
      for (const name of group.names) {
        const record = variables[name];
        const place = conwalk.element("figure", { class: "figure", id: `curve-${name}` });
        grid.append(place);
        const figure = conwalk.figure(place, { title: record.title, symbol: record.symbol, href: `#def-${name}`, height: 200, draw: () => drawCurve(record, conwalk.state.over) });
        conwalk.on(["over"], figure.update);
      }
    }
    startRest(curves.find((group) => group.key === "rest"));
  };

  function startRest(group) {
    const place = document.getElementById("rest-curve");
    if (!place) return;
    const { variables } = conwalk.data;
    conwalk.state.rest = group.names.find((name) => variables[name].null?.mean) || group.names[0];
    conwalk.controls("rest", conwalk.selectControl("Quantity", "rest", group.names.map((name) => [name, variables[name].title])));
    const figure = conwalk.figure(place, {
      title: "Any other quantity", height: 260, href: "#definitions",
      draw: async () => {
        const record = variables[conwalk.state.rest];
        return { ...(await drawCurve(record, conwalk.state.over)), title: record.title, heading: record.title, symbol: record.symbol, href: `#def-${conwalk.state.rest}`, note: record.meaning };
      },
    });
    conwalk.on(["over", "rest"], figure.update);
  }
})(window.conwalk);
