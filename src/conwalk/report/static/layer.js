// One layer: its edges as images, its singular values, its spectrum, and how far other layers are.
(function (conwalk) {
  "use strict";
  const IMAGES = ["walk_matrix", "edge_effective_rank", "edge_norm"];
  const ABSENT = "These results hold no maps of layers: analyze makes them, unless it is told to leave the details out.";

  const square = (element, extra) => Math.min(element.clientWidth || 400, 480) + extra;

  // Names of the cells along an axis: tokens, or spans of tokens where several share a cell.
  conwalk.cellNames = function (tokens, cell, count) {
    return Array.from({ length: count }, (_, i) => {
      if (i * cell >= tokens.length) return String(i);
      if (cell === 1) return conwalk.isolated(conwalk.visible(tokens[i]));
      return `${i * cell}–${Math.min((i + 1) * cell, tokens.length) - 1}`;
    });
  };

  // The tokens of one of the texts that layers read, by its name; layers know the names.
  conwalk.tokensIn = function (prompt, text) {
    const { tokens, others } = conwalk.data.prompts[prompt];
    return others[text] ?? tokens;
  };

  conwalk.mapOf = function (name, prompt, layer) {
    return conwalk.array(conwalk.data.maps[name]?.layers?.[prompt]?.[layer]);
  };

  function absent(name) {
    const { maps } = conwalk.data;
    if (!maps[name]) return { empty: ABSENT };
    return { empty: maps.left_out ? "There was no room for this one in the page, or it does not exist; conwalk report RESULTS --megabytes 60 makes room." : "Not defined for this layer and this text." };
  }

  async function drawImage(name, figure) {
    const { prompt, layer, colours } = conwalk.state;
    const found = await conwalk.mapOf(name, prompt, layer);
    if (!found) return absent(name);
    const map = conwalk.data.maps[name];
    const [height, width] = found.shape;
    const values = conwalk.rows(found.values, height, width);
    const [rows, columns] = [["query", height], ["key", width]].map(([axis, count]) => conwalk.cellNames(conwalk.tokensIn(prompt, conwalk.data.layers[layer][axis]), map.cell, count));
    const index = (i) => (map.cell === 1 ? i : `${i * map.cell}…`);
    const isWalk = name === "walk_matrix";
    const signed = isWalk && conwalk.finite(found.values).some((v) => v < 0);
    const text = (i, j) => `from <b>${conwalk.escape(rows[i])}</b> (${index(i)}) to <b>${conwalk.escape(columns[j])}</b> (${index(j)})<br>${conwalk.escape(map.symbol)} = ${conwalk.short(values[i][j])}`;
    const size = square(figure.element, 0) - 90;
    return {
      title: `${map.title}, layer ${conwalk.data.layers[layer].label}, ${conwalk.data.prompts[prompt].name}`, symbol: map.symbol, href: `#def-${name}`,
      note: `${map.meaning}${map.cell > 1 ? `; a cell is the mean over ${map.cell} × ${map.cell} tokens` : ""}`,
      height: square(figure.element, 20),
      data: [conwalk.heatmapTrace({ values, signed, log: isWalk && !signed && colours === "log", text })],
      layout: {
        xaxis: { ...conwalk.ticks(columns, size), tickangle: -90, showgrid: false, constrain: "domain", title: "to (attended to)", side: "bottom" },
        yaxis: { ...conwalk.ticks(rows, size), range: [height - 0.5, -0.5], showgrid: false, scaleanchor: height === width ? "x" : undefined, constrain: "domain", title: "from" },
        margin: { l: 8, r: 8, t: 4, b: 8 }, dragmode: "zoom",
      },
      labels: { rows, columns, size },
      table: () => ({ head: ["from", ...columns], rows: rows.map((row, i) => [row, ...values[i]]) }),
    };
  }

  // Closer in there is room for more labels.
  function relabel(change, figure) {
    if (!Object.keys(change).some((key) => /^[xy]axis\.(range|autorange)/.test(key))) return;
    const { rows, columns, size } = figure.made.labels;
    const [x, y] = ["xaxis", "yaxis"].map((axis) => figure.plot.layout[axis].range);
    const [across, down] = [conwalk.ticks(columns, size, x), conwalk.ticks(rows, size, y)];
    Plotly.relayout(figure.body, { "xaxis.tickvals": across.tickvals, "xaxis.ticktext": across.ticktext, "yaxis.tickvals": down.tickvals, "yaxis.ticktext": down.ticktext });
  }

  const rms = (values) => Math.sqrt(conwalk.mean(conwalk.finite(values).map((v) => v * v)));

  // σ over its root mean square, one line a head, against what nine in ten random heads do.
  conwalk.drawSingular = async function (onlyHead) {
    const { data, state } = conwalk;
    const { maps } = data;
    const found = await conwalk.array(maps.singular_values?.numbers);
    if (!found) return { empty: ABSENT };
    const [, heads, count] = found.shape;
    const of = (head) => {
      const start = (state.layer * heads + head) * count;
      return Array.from(found.values.subarray(start, start + count)).filter((v) => !Number.isNaN(v));
    };
    const [low, high] = await Promise.all(["low", "high"].map(async (end) => {
      const band = await conwalk.array(maps[`singular_values_null_${end}`]?.numbers);
      return band ? Array.from(band.values.subarray(state.layer * count, (state.layer + 1) * count)).filter((v) => !Number.isNaN(v)) : [];
    }));
    const chosen = Array.from({ length: heads }, (_, i) => i).filter((i) => of(i).length && (!onlyHead || i === state.head));
    if (!chosen.length) return { empty: "This layer has no constant head maps, so no singular values." };
    const traces = [];
    if (low.length) {
      const x = low.map((_, i) => i + 1);
      traces.push({ x: [...x, ...x.toReversed()], y: [...low, ...high.toReversed()], fill: "toself", fillcolor: conwalk.colour("null-soft"), line: { width: 0 }, mode: "lines", hoverinfo: "skip", name: "nine in ten random heads", showlegend: true, type: "scatter" });
    }
    for (const head of [...chosen].sort((a, b) => (a === state.head) - (b === state.head))) {
      const sigma = of(head);
      const scale = rms(sigma) || 1;
      const isChosen = head === state.head;
      traces.push({
        x: sigma.map((_, i) => i + 1), y: sigma.map((v) => v / scale), type: "scatter", mode: "lines", name: isChosen ? `head ${data.heads[head]}` : "other heads", showlegend: isChosen || head === chosen.find((h) => h !== state.head),
        line: { color: conwalk.colour(isChosen ? "series-2" : "series-1"), width: isChosen ? 2.4 : 1 }, opacity: isChosen ? 1 : 0.45,
        text: sigma.map((v, i) => `<b>head ${data.heads[head]}</b>, value ${i + 1} of ${sigma.length}<br>σ = ${conwalk.short(v)}<br>σ / rms σ = ${conwalk.short(v / scale)}${low.length ? `<br>chance: ${conwalk.short(low[i])} to ${conwalk.short(high[i])}` : ""}`),
        hovertemplate: "%{text}<extra></extra>",
      });
    }
    const title = onlyHead ? `Singular values, head ${data.heads[state.head]} of layer ${data.layers[state.layer].label}` : `Singular values, layer ${data.layers[state.layer].label}`;
    return {
      data: traces, title, symbol: "σ / rms σ", href: "#def-singular_values", note: "A flat line at 1 is a scaled isometry; grey is where nine in ten heads with independent Gaussian factors lie.",
      layout: { xaxis: { title: "number of the value", rangemode: "tozero" }, yaxis: { rangemode: "tozero", nticks: 6 }, showlegend: true },
      table: () => ({
        head: ["value", ...chosen.map((head) => `σ, head ${data.heads[head]}`), ...(low.length ? ["chance, 5 %", "chance, 95 %"] : [])],
        rows: Array.from({ length: count }, (_, i) => [i + 1, ...chosen.map((head) => of(head)[i] ?? NaN), ...(low.length ? [low[i] ?? NaN, high[i] ?? NaN] : [])]),
      }),
    };
  };

  async function drawSpectrum(figure) {
    const { prompt, layer } = conwalk.state;
    const [real, imaginary] = await Promise.all(["real", "imag"].map((part) => conwalk.mapOf(`spectrum_${part}`, prompt, layer)));
    if (!real || !imaginary) return absent("spectrum_real");
    const [x, y] = [Array.from(real.values), Array.from(imaginary.values)];
    const scale = conwalk.data.maps.spectrum_scale?.values[prompt]?.[layer] ?? null;
    const radius = scale ?? 1;
    const circle = scale === null ? "The orange circle has radius 1." : `The orange circle has radius s = ${conwalk.short(scale)}, the scale at which the transports come closest to isometries: were they isometries of that scale, no eigenvalue would lie outside.`;
    const reach = 1.08 * Math.max(radius, ...x.map(Math.abs), ...y.map(Math.abs));
    return {
      title: `Spectrum, layer ${conwalk.data.layers[layer].label}, ${conwalk.data.prompts[prompt].name}`, symbol: "eigenvalues of 𝒲", href: "#def-spectral_radius",
      note: `${conwalk.data.maps.spectrum_real.of || "Eigenvalues of the walk"}. ${circle}`, height: square(figure.element, 30),
      data: [{ x, y, type: "scatter", mode: "markers", marker: { size: x.length > 200 ? 4 : 6, color: conwalk.colour("series-1"), opacity: 0.65 }, text: x.map((v, i) => `λ = ${conwalk.short(v)} ${y[i] < 0 ? "−" : "+"} ${conwalk.short(Math.abs(y[i]))} i<br>|λ| = ${conwalk.short(Math.hypot(v, y[i]))}`), hovertemplate: "%{text}<extra></extra>" }],
      layout: {
        xaxis: { title: "real part", range: [-reach, reach], zeroline: true, zerolinecolor: conwalk.colour("grid"), constrain: "domain" },
        yaxis: { title: "imaginary part", range: [-reach, reach], zeroline: true, zerolinecolor: conwalk.colour("grid"), scaleanchor: "x", constrain: "domain" },
        shapes: [{ type: "circle", x0: -radius, x1: radius, y0: -radius, y1: radius, layer: "above", line: { color: conwalk.colour("counter"), width: 1.6 } }],
      },
      table: () => ({ head: ["number", "real part", "imaginary part", "modulus"], rows: x.map((v, i) => [i + 1, v, y[i], Math.hypot(v, y[i])]) }),
    };
  }

  // Every matrix of distances between layers that the results hold, the whole operator's first.
  function distanceOptions() {
    const { maps, pairNames, variables } = conwalk.data;
    const own = maps.operator_distance ? [["operator_distance", maps.operator_distance.title]] : [];
    return [...own, ...pairNames.map((name) => [name, variables[name].title])];
  }

  async function drawDistance(figure) {
    const { data, state } = conwalk;
    const name = state.distance;
    if (!name) return { empty: "These results hold no distances between all pairs of layers. To measure them: conwalk analyze MODEL --metrics default,depth_lifted_matrix" };
    const isMap = name === "operator_distance";
    const record = isMap ? data.maps[name] : data.variables[name];
    const found = await conwalk.array(isMap ? record.numbers[state.prompt] : record.numbers);
    if (!found) return { empty: "Not defined for this text." };
    const count = data.layers.length;
    const values = conwalk.rows(found.values, count, count, isMap ? 0 : (state.prompt + 1) * count * count);
    if (!conwalk.finite(values.flat()).length) return { empty: "Not defined for this text." };
    const text = (i, j) => `layers <b>${conwalk.escape(data.layers[i].label)}</b> and <b>${conwalk.escape(data.layers[j].label)}</b><br>${conwalk.short(values[i][j])}`;
    const axis = { ...conwalk.layerAxis(), showgrid: false, constrain: "domain" };
    return {
      title: `${record.title}, ${data.prompts[state.prompt].name}`, heading: record.title, symbol: record.symbol, href: `#def-${name}`, note: `${record.meaning}. Click a cell to go to the layer of its column.`, height: square(figure.element, 20),
      data: [conwalk.heatmapTrace({ values, text, passed: (i, j) => i === j })],
      layout: { xaxis: axis, yaxis: { ...axis, range: [count - 0.5, -0.5], scaleanchor: "x" }, margin: { l: 8, r: 8, t: 4, b: 8 }, shapes: [conwalk.cellFrame(state.layer, state.layer)] },
      table: () => ({ head: ["layer", ...data.layers.map((layer) => layer.label)], rows: data.layers.map((layer, i) => [layer.label, ...values[i]]) }),
    };
  }

  conwalk.startLayer = function () {
    const { data } = conwalk;
    const distances = distanceOptions();
    conwalk.state.distance = distances[0]?.[0] ?? null;
    conwalk.state.colours = "log";
    conwalk.controls("layer", conwalk.selectControl("Layer", "layer", conwalk.layerOptions()));
    if (data.prompts.length > 1) conwalk.controls("layer", conwalk.selectControl("Text", "prompt", conwalk.promptOptions()));
    if (data.maps.walk_matrix) conwalk.controls("layer", conwalk.toggleControl("Colours of the walk matrix", "colours", [["log", "Logarithmic colours"], ["linear", "Linear"]]));
    if (distances.length > 1) conwalk.controls("layer", conwalk.selectControl("Distance of layers", "distance", distances));
    for (const name of IMAGES) {
      const figure = conwalk.figure(document.getElementById(`image-${name}`), {
        title: data.maps[name]?.title || document.getElementById(`image-${name}`).dataset.label, height: 420, draw: () => drawImage(name, figure), onZoom: relabel,
        onClick: (point) => conwalk.choose({ token: point.y * data.maps[name].cell }), keys: { choose: (_, row) => conwalk.choose({ token: row * data.maps[name].cell }) },
      });
      conwalk.on(name === "walk_matrix" ? ["layer", "prompt", "colours"] : ["layer", "prompt"], figure.update);
    }
    const singular = conwalk.figure(document.getElementById("layer-singular"), { title: "Singular values", height: 380, draw: () => conwalk.drawSingular(false) });
    conwalk.on(["layer", "head"], singular.update);
    const spectrum = conwalk.figure(document.getElementById("layer-spectrum"), { title: "Spectrum", height: 420, draw: () => drawSpectrum(spectrum) });
    conwalk.on(["layer", "prompt"], spectrum.update);
    const distance = conwalk.figure(document.getElementById("layer-distance"), {
      title: "Distances of layers", height: 420, draw: () => drawDistance(distance),
      onClick: (point) => conwalk.choose({ layer: point.x }), keys: { choose: (column) => conwalk.choose({ layer: column }), start: () => [conwalk.state.layer, conwalk.state.layer] },
    });
    conwalk.on(["layer", "prompt", "distance"], distance.update);
    const verdict = () => {
      const layer = data.layers[conwalk.state.layer];
      const kind = layer.kind && layer.kind !== "plain" ? ` (${layer.kind})` : "";
      document.getElementById("layer-verdict").textContent = `Layer ${layer.label}${kind}: ${layer.verdict || "no verdict in these results"}.`;
    };
    conwalk.on(["layer"], verdict);
    verdict();
  };
})(window.conwalk);
