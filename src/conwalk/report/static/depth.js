// How stable the walk is from layer to layer, for three graphs at once, and the energy ledger.
(function (conwalk) {
  "use strict";
  const GRAPHS = ["Raw walk", "Sink removed", "Value-weighted"];
  const ALL = 3;

  conwalk.startStability = function () {
    const { stability, variables } = conwalk.data;
    const grid = document.getElementById("stability-grid");
    if (!stability.length) {
      grid.replaceWith(conwalk.element("p", { class: "absent" }, "These results hold no distances between layers. To measure them: conwalk analyze MODEL --metrics default,depth_tv"));
      return;
    }
    conwalk.state.graph = 0;
    conwalk.state.form = "plain";
    conwalk.controls("stability",
      conwalk.toggleControl("Graph", "graph", [...GRAPHS.map((words, i) => [i, words]), [ALL, "All three"]]),
      conwalk.toggleControl("Form", "form", [["plain", "Distance"], ["relative", "Relative to even attention"]]));
    if (conwalk.data.allPrompts > 1) conwalk.controls("stability", conwalk.selectControl("Texts", "over", conwalk.overOptions()));
    for (const distance of stability) {
      const place = conwalk.element("figure", { class: "figure", id: `stability-${distance.plain.find(Boolean)}` });
      grid.append(place);
      const figure = conwalk.figure(place, { title: distance.title, height: 220, href: "#definitions", draw: () => drawDistance(distance, variables) });
      conwalk.on(["over", "graph", "form"], figure.update);
    }
  };

  async function drawDistance(distance, variables) {
    const { graph, form, over } = conwalk.state;
    const hasForm = distance[form].some(Boolean);
    const names = hasForm ? distance[form] : distance.plain;
    const single = names.filter(Boolean).length === 1;
    const chosen = single ? [0] : graph === ALL ? [0, 1, 2] : [graph];
    const shown = chosen.filter((i) => names[i]);
    const notes = [];
    if (single) notes.push("The same whatever graph is chosen.");
    if (!hasForm) notes.push("Has no relative form.");
    if (!shown.length) return { empty: `Not measured for this graph (${GRAPHS[graph].toLowerCase()}).` };
    const data = []; const tables = [];
    let known = false;
    for (const i of shown) {
      const made = await conwalk.curveTraces(variables[names[i]], over, `series-${i + 1}`, shown.length > 1 ? GRAPHS[i] : "");
      known ||= made.known;
      data.push(...made.data);
      tables.push({ name: shown.length > 1 ? GRAPHS[i] : "", table: made.table });
    }
    if (!known) return { empty: "No two layers could be compared here." };
    const record = variables[names[shown[0]]];
    return {
      data, table: () => conwalk.curveTable(tables), symbol: record.symbol, href: `#def-${names[shown[0]]}`, note: notes.join(" "),
      title: `${distance.title}${shown.length > 1 ? "" : `, ${GRAPHS[shown[0]].toLowerCase()}`}${hasForm && form === "relative" ? ", relative" : ""}`,
      layout: conwalk.curveLayout({ yaxis: conwalk.fromZero(record), more: { showlegend: shown.length > 1 } }),
    };
  }

  const TERM_WORDS = {
    dirichlet: "differences between tokens and what they receive", stationarity: "stationarity defect",
    compatibility: "metric-compatibility defect", leak: "leaking rows",
  };

  conwalk.startLedger = function () {
    const { ledgers } = conwalk.data;
    const place = document.getElementById("ledger-figure");
    if (!ledgers.length) {
      place.replaceWith(conwalk.element("p", { class: "absent" }, "The ledger is measured on request: conwalk analyze MODEL --metrics default,ledger"));
      return;
    }
    conwalk.state.ledger = ledgers[0].prefix;
    if (ledgers.length > 1) conwalk.controls("ledger", conwalk.toggleControl("Ledger", "ledger", ledgers.map((ledger) => [ledger.prefix, ledger.title])));
    if (conwalk.data.allPrompts > 1) conwalk.controls("ledger", conwalk.selectControl("Texts", "over", conwalk.overOptions()));
    const figure = conwalk.figure(place, { title: "Energy ledger", symbol: "share of the tokens' own energy", href: "#def-energy_total", height: 340, draw: drawLedger });
    conwalk.on(["over", "ledger"], figure.update);
  };

  // Areas above zero are stacked upwards, those below downwards; the line is the total.
  async function drawLedger() {
    const { variables, terms } = conwalk.data;
    const { over, ledger } = conwalk.state;
    const present = terms.filter((term) => variables[ledger + term]);
    const lines = await Promise.all(present.map((term) => conwalk.line(variables[ledger + term].numbers, over)));
    if (!lines.some((line) => line.some((v) => Number.isFinite(v)))) return { empty: "The ledger is not defined for these layers." };
    const total = variables[`${ledger}total`] ? await conwalk.line(variables[`${ledger}total`].numbers, over) : null;
    const chance = variables[`${ledger}total`] ? await conwalk.nullLines(variables[`${ledger}total`], over) : {};
    const residual = variables[`${ledger}residual`] ? await conwalk.line(variables[`${ledger}residual`].numbers, over) : null;
    const x = conwalk.data.layers.map((_, i) => i);
    const data = present.flatMap((term, k) => [1, -1].map((side) => ({
      x, y: lines[k].map((v) => (Number.isNaN(v) ? null : side * v > 0 ? v : 0)), type: "scatter", mode: "lines", stackgroup: side > 0 ? "up" : "down",
      name: TERM_WORDS[term], legendgroup: term, showlegend: side > 0, hoverinfo: "skip",
      line: { width: 0.5, color: conwalk.colour(`series-${k + 1}`) }, fillcolor: `${conwalk.colour(`series-${k + 1}`)}aa`,
    })));
    const text = x.map((i) => [`<b>layer ${conwalk.escape(conwalk.data.layers[i].label)}</b>`,
      ...present.map((term, k) => `${TERM_WORDS[term]}: ${conwalk.short(lines[k][i])}`),
      total ? `<b>total: ${conwalk.short(total[i])}</b>` : "", chance.mean ? `chance: ${conwalk.short(chance.mean[i])}${chance.z ? `, z ${conwalk.signed(chance.z[i])}` : ""}` : "",
      residual ? `residual of the identity: ${conwalk.short(residual[i])}` : "",
      "Defects are 0 for a connection Laplacian; the four parts sum to the total."].filter(Boolean).join("<br>"));
    if (chance.mean) {
      data.push({ x, y: chance.mean, type: "scatter", mode: "lines", name: "total by chance", hoverinfo: "skip", line: { color: conwalk.colour("text"), width: 1.2, dash: "dash" },
        ...(chance.sd ? { error_y: { type: "data", array: chance.sd.map((v) => 2 * v), color: conwalk.colour("null"), thickness: 1, width: 3 } } : {}) });
    }
    const sums = total || lines[0].map((_, i) => lines.reduce((a, line) => a + line[i], 0));
    data.push({ x, y: sums.map((v) => (Number.isNaN(v) ? null : v)), type: "scatter", mode: "lines+markers", name: "total", line: { color: conwalk.colour("text"), width: 1.8 }, marker: { size: 4 }, text, hovertemplate: "%{text}<extra></extra>" });
    return {
      data, note: "For a connection Laplacian all defects are 0: the total is the first part alone.",
      layout: conwalk.curveLayout({ yaxis: { title: "share of Σ μ ‖x‖²", zeroline: true, zerolinecolor: conwalk.colour("null") }, more: { showlegend: true } }),
      table: () => ({
        head: ["layer", ...present.map((term) => TERM_WORDS[term]), "total", ...(residual ? ["residual"] : [])],
        rows: conwalk.data.layers.map((layer, i) => [layer.label, ...lines.map((line) => line[i]), sums[i], ...(residual ? [residual[i]] : [])]),
      }),
    };
  }
})(window.conwalk);
