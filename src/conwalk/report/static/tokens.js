// The text as it was tokenised: choose a token to see where the walk goes from it and comes from.
(function (conwalk) {
  "use strict";
  const MOST_ARCS = 6;
  let strip = null;

  const prompt = () => conwalk.data.prompts[conwalk.state.prompt];
  // The text that is shown is that of the queries of the layer; state.text is its name.
  const shownTokens = () => conwalk.tokensIn(conwalk.state.prompt, conwalk.state.text);
  const middle = () => Math.floor(shownTokens().length / 2);
  const queries = () => conwalk.data.layers[conwalk.state.layer].query;
  const crosses = (layer) => conwalk.data.layers[layer].query !== conwalk.data.layers[layer].key;
  const severalTexts = () => conwalk.data.layers.some(({ query, key }) => query !== conwalk.data.layers[0].query || key !== query);
  const cell = () => conwalk.data.maps.walk_matrix?.cell || 1;

  conwalk.startTokens = function () {
    const { data } = conwalk;
    if (data.prompts.length > 1) conwalk.controls("tokens", conwalk.selectControl("Text", "prompt", conwalk.promptOptions()));
    conwalk.controls("tokens", conwalk.selectControl("Layer of the arcs", "layer", conwalk.layerOptions()));
    conwalk.state.tokenName = data.tokenNames[0] || null;
    strip = makeStrip(document.getElementById("token-text"));
    conwalk.state.axes = 0;
    conwalk.state.text = queries();
    conwalk.state.token = middle();
    conwalk.on(["layer"], () => conwalk.choose({ text: queries() }));
    conwalk.on(["prompt", "text"], () => { conwalk.state.token = middle(); strip.fill(); strip.mark(); });
    conwalk.on(["token", "layer"], () => strip.mark());
    strip.fill();
    strip.mark();
    new ResizeObserver(() => strip.arcs()).observe(document.getElementById("token-text"));
    conwalk.onTheme(() => strip.arcs());
    startFigures();
  };

  // One tab stop; the arrow keys move the choice, Home and End go to the ends.
  function makeStrip(box) {
    const inner = conwalk.element("div", { class: "tokens-inner" });
    const list = conwalk.element("div", { role: "listbox", "aria-label": "Tokens of the text", "aria-orientation": "horizontal" });
    const overlay = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    overlay.setAttribute("aria-hidden", "true");
    inner.append(list, overlay);
    box.append(inner);
    let options = [];
    let weights = { to: [], from: [] };

    const choose = (place, focus) => {
      const token = Math.max(0, Math.min(options.length - 1, place));
      conwalk.choose({ token });
      if (focus) options[token]?.focus({ preventScroll: false });
    };

    function fill() {
      options = shownTokens().map((token, i) => {
        const option = conwalk.element("span", { role: "option", id: `token-${i}`, tabindex: "-1", title: `token ${i}` }, conwalk.element("bdi", {}, conwalk.visible(token)));
        option.addEventListener("click", () => choose(i, true));
        return option;
      });
      list.replaceChildren(...options.flatMap((option, i) => (shownTokens()[i].includes("\n") ? [option, conwalk.element("br")] : [option])));
    }

    list.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: nextLine(1), ArrowUp: nextLine(-1), Home: -Infinity, End: Infinity };
      if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      choose(conwalk.state.token + steps[event.key], true);
    });

    // Tokens to the one above or below.
    function nextLine(direction) {
      const here = options[conwalk.state.token];
      if (!here) return 0;
      const below = options.filter((option) => direction * (option.offsetTop - here.offsetTop) > 2);
      if (!below.length) return 0;
      const line = direction > 0 ? below[0].offsetTop : below.at(-1).offsetTop;
      const near = below.filter((option) => Math.abs(option.offsetTop - line) <= 2).sort((a, b) => Math.abs(a.offsetLeft - here.offsetLeft) - Math.abs(b.offsetLeft - here.offsetLeft));
      return options.indexOf(near[0]) - conwalk.state.token;
    }

    async function mark() {
      const { token, layer } = conwalk.state;
      options.forEach((option, i) => {
        option.setAttribute("aria-selected", String(i === token));
        option.tabIndex = i === token ? 0 : -1;
      });
      const found = await conwalk.mapOf("walk_matrix", conwalk.state.prompt, layer);
      if (token !== conwalk.state.token || layer !== conwalk.state.layer) return;
      weights = found ? steps(found, token) : { to: [], from: [] };
      options.forEach((option, i) => {
        const place = Math.floor(i / cell());
        const [to, from] = crosses(layer) ? [0, 0] : [weights.to[place] || 0, weights.from[place] || 0];
        option.style.setProperty("--to", `${Math.round(100 * Math.sqrt(Math.min(1, to)))}%`);
        option.style.setProperty("--from", `${Math.round(100 * Math.sqrt(Math.min(1, from)))}%`);
      });
      describe(Boolean(found));
      arcs();
      reveal(options[token]);
    }

    // A long text scrolls in its own box; the page stays where it is.
    function reveal(option) {
      if (!option) return;
      const [top, bottom] = [option.offsetTop, option.offsetTop + option.offsetHeight];
      if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight - 40) box.scrollTop = top - box.clientHeight / 2;
    }

    function strongest(list, own) {
      return list.map((weight, place) => ({ weight, place })).filter(({ weight, place }) => weight > 0 && place !== own).sort((a, b) => b.weight - a.weight).slice(0, MOST_ARCS);
    }

    function name(place, tokens = shownTokens()) {
      if (cell() > 1) return `tokens ${conwalk.cellNames(tokens, cell(), place + 1)[place]}`;
      return `“${conwalk.isolated(conwalk.visible(tokens[place] ?? ""))}” (${place})`;
    }

    function describe(known) {
      const { token, layer } = conwalk.state;
      const own = Math.floor(token / cell());
      const words = (list, tokens, self) => strongest(list, self).slice(0, 3).map(({ weight, place }) => `${name(place, tokens)} ${conwalk.short(weight)}`).join(", ") || "no other token";
      const place = document.getElementById("token-words");
      if (known && crosses(layer)) {
        const there = conwalk.tokensIn(conwalk.state.prompt, conwalk.data.layers[layer].key);
        place.textContent = `At layer ${conwalk.data.layers[layer].label}, from ${name(own)} the walk goes to another text, most to ${words(weights.to, there)}. Arcs are drawn for layers whose queries and keys are the same text; the walk matrix shows this one.`;
        return;
      }
      place.textContent = known
        ? `At layer ${conwalk.data.layers[layer].label}, from ${name(own)}${cell() > 1 ? ", which share a cell," : ""} the walk stays with ${conwalk.short(weights.to[own] ?? NaN)} and goes most to ${words(weights.to, shownTokens(), own)}. It comes there most from ${words(weights.from, shownTokens(), own)}.`
        : "The page holds no walk matrix of this layer and text, so there is nothing to follow.";
    }

    function arcs() {
      const own = Math.floor(conwalk.state.token / cell());
      const [width, height] = [inner.scrollWidth, inner.scrollHeight];
      overlay.setAttribute("width", width);
      overlay.setAttribute("height", height);
      overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
      overlay.replaceChildren();
      const middle = (option) => [option.offsetLeft + option.offsetWidth / 2, option.offsetTop];
      const start = options[conwalk.state.token];
      if (!start || crosses(conwalk.state.layer)) return;
      for (const [list, colour, below] of [[weights.to, "accent", false], [weights.from, "counter", true]]) {
        const found = strongest(list, own);
        const most = found[0]?.weight || 1;
        for (const { weight, place } of found) {
          const end = options[place * cell()];
          if (!end) continue;
          const [x0, y0] = middle(start); const [x1, y1] = middle(end);
          const [a, b] = [y0, y1].map((y, i) => (below ? y + [start, end][i].offsetHeight - 2 : y + 2));
          const lift = Math.min(46, 14 + Math.abs(x1 - x0) / 7) * (below ? 1 : -1);
          const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
          path.setAttribute("d", `M ${x0} ${a} C ${x0 + (x1 - x0) / 5} ${a + lift}, ${x1 - (x1 - x0) / 5} ${b + lift}, ${x1} ${b}`);
          path.setAttribute("fill", "none");
          path.setAttribute("stroke", conwalk.colour(colour));
          path.setAttribute("stroke-width", (0.8 + 2.6 * Math.sqrt(weight / most)).toFixed(2));
          path.setAttribute("stroke-opacity", (0.35 + 0.5 * (weight / most)).toFixed(2));
          overlay.append(path);
        }
      }
    }

    return { fill, mark, arcs };
  }

  // The row and the column of a token in a walk matrix.
  function steps({ values, shape: [height, width] }, token) {
    const own = Math.floor(token / cell());
    return {
      to: own < height ? Array.from(values.subarray(own * width, (own + 1) * width)) : [],
      from: own < width ? Array.from({ length: height }, (_, i) => values[i * width + own]) : [],
    };
  }

  const reads = (layer) => conwalk.data.layers[layer].query === conwalk.state.text;
  const otherRows = () => (severalTexts() ? " Rows of layers that read another text are empty." : "");

  const layerAxisDown = () => ({ ...conwalk.layerAxis(), autorange: undefined, range: [conwalk.data.layers.length - 0.5, -0.5], showgrid: false });
  const height = () => 95 + Math.max(90, Math.min(360, conwalk.data.layers.length * 12));

  async function drawSteps(way, figure) {
    const { state, data } = conwalk;
    if (!data.maps.walk_matrix) return { empty: "These results hold no walk matrices: analyze makes them, unless it is told to leave the details out." };
    const all = await Promise.all(data.layers.map((_, layer) => conwalk.mapOf("walk_matrix", state.prompt, layer)));
    const rows = all.map((found, layer) => (found && reads(layer) && !crosses(layer) ? steps(found, state.token)[way] : []));
    const width = Math.max(...rows.map((row) => row.length));
    if (!width) return { empty: "Not in this page for this text." };
    const values = rows.map((row) => Array.from({ length: width }, (_, i) => (Number.isFinite(row[i]) ? row[i] : null)));
    const names = conwalk.cellNames(shownTokens(), cell(), width);
    const own = conwalk.isolated(conwalk.visible(shownTokens()[state.token] ?? ""));
    const text = (i, j) => `layer <b>${conwalk.escape(data.layers[i].label)}</b>, ${way} <b>${conwalk.escape(names[j])}</b> (${j * cell()})<br>${conwalk.short(values[i][j])}`;
    const words = way === "to" ? "Steps from" : "Steps into";
    return {
      title: `${words} ${own} (${state.token})`, heading: `${words} “${own}” (${state.token})`, note: `Colours are logarithmic. Click a cell to go to its layer.${otherRows()}`, height: height(),
      data: [conwalk.heatmapTrace({ values, log: true, text })],
      layout: { xaxis: { ...conwalk.ticks(names, (figure.element.clientWidth || 400) - 60), tickangle: -90, showgrid: false }, yaxis: { ...layerAxisDown(), title: "layer" }, margin: { l: 8, r: 8, t: 4, b: 8 } },
      table: () => ({ head: ["layer", ...names], rows: data.layers.map((layer, i) => [layer.label, ...values[i]]) }),
    };
  }

  async function drawDiffusion(figure) {
    const { state, data } = conwalk;
    const found = await conwalk.mapOf("diffusion_map", state.prompt, state.layer);
    if (!found) return { empty: data.maps.diffusion_map ? "Not defined for this layer and this text, or the text has more than 256 tokens." : "These results hold no diffusion maps: analyze makes them for texts of up to 256 tokens." };
    const [count, axes] = found.shape;
    const axis = (k) => Array.from({ length: count }, (_, i) => (k < axes ? found.values[i * axes + k] : 0));
    const names = conwalk.cellNames(shownTokens(), 1, count);
    const shown = Math.min(state.axes, axes - 2);
    const [x, y] = [axis(shown), axis(shown + 1)];
    const size = x.map((_, i) => (i === state.token ? 14 : 7));
    return {
      title: `Vector diffusion map, layer ${data.layers[state.layer].label}, ${prompt().name}`, heading: "Vector diffusion map of the tokens", symbol: "φ", href: "#def-diffusion_map", height: height() + 40,
      note: "Tokens are near where many short ways between them agree. Dark to light is first to last. Click a token to choose it.",
      data: [{ x, y, type: "scatter", mode: "markers", text: names.map((name, i) => `<b>${conwalk.escape(name)}</b> (${i})<br>${conwalk.short(x[i])}, ${conwalk.short(y[i])}`), hovertemplate: "%{text}<extra></extra>",
        marker: { size, color: x.map((_, i) => i), colorscale: "Viridis", line: { width: x.map((_, i) => (i === state.token ? 2.5 : 0.8)), color: x.map((_, i) => conwalk.colour(i === state.token ? "counter" : "null")) } } }],
      layout: { xaxis: { title: `axis ${shown + 1}`, nticks: 5 }, yaxis: { title: `axis ${shown + 2}`, nticks: 5 } },
      table: () => ({ head: ["token", "place", ...Array.from({ length: axes }, (_, k) => `axis ${k + 1}`)], rows: names.map((name, i) => [name, i, ...Array.from({ length: axes }, (_, k) => found.values[i * axes + k])]) }),
    };
  }

  async function drawNumbers(figure) {
    const { state, data } = conwalk;
    if (!state.tokenName) return { empty: "Numbers of single tokens are measured on request: conwalk analyze MODEL --metrics default,ledger_tokens" };
    const record = data.variables[state.tokenName];
    const found = await conwalk.perLayer(record.numbers, state.prompt + 1);
    const width = shownTokens().length;
    const values = found.map((row, layer) => Array.from(row.subarray(0, width), (v) => (Number.isNaN(v) || !reads(layer) ? null : v)));
    const names = conwalk.cellNames(shownTokens(), 1, width);
    if (!conwalk.finite(values.flat()).length) return { empty: "Not defined for this text." };
    const signed = conwalk.finite(values.flat()).some((v) => v < 0);
    return {
      title: `${record.title}, ${prompt().name}`, heading: record.title, symbol: record.symbol, href: `#def-${state.tokenName}`, note: `${record.meaning}${record.meaning && otherRows() ? "." : ""}${otherRows()}`, height: height(),
      data: [conwalk.heatmapTrace({ values, signed, text: (i, j) => `layer <b>${conwalk.escape(data.layers[i].label)}</b>, <b>${conwalk.escape(names[j])}</b> (${j})<br>${conwalk.short(values[i][j])}` })],
      layout: { xaxis: { ...conwalk.ticks(names, (figure.element.clientWidth || 400) - 60), tickangle: -90, showgrid: false }, yaxis: { ...layerAxisDown(), title: "layer" }, margin: { l: 8, r: 8, t: 4, b: 8 } },
      table: () => ({ head: ["layer", ...names], rows: data.layers.map((layer, i) => [layer.label, ...values[i]]) }),
    };
  }

  function startFigures() {
    const { data } = conwalk;
    const toLayer = { onClick: (point) => conwalk.choose({ layer: point.y }), keys: { choose: (_, row) => conwalk.choose({ layer: row }), start: () => [0, conwalk.state.layer] } };
    for (const way of ["to", "from"]) {
      const figure = conwalk.figure(document.getElementById(`token-${way}`), { title: way === "to" ? "Steps from the token" : "Steps into the token", height: height(), draw: () => drawSteps(way, figure), ...toLayer });
      conwalk.on(["prompt", "token", "text"], figure.update);
    }
    const diffusion = conwalk.figure(document.getElementById("token-diffusion"), { title: "Vector diffusion map of the tokens", height: height() + 40, draw: () => drawDiffusion(diffusion), onClick: (point) => conwalk.choose({ token: point.pointNumber }) });
    conwalk.on(["prompt", "layer", "token", "axes"], diffusion.update);
    if (data.maps.diffusion_map) conwalk.controls("tokens", conwalk.toggleControl("Axes of the diffusion map", "axes", [[0, "Diffusion axes 1 and 2"], [1, "2 and 3"]]));
    if (data.tokenNames.length) conwalk.controls("tokens", conwalk.selectControl("Numbers of tokens", "tokenName", data.tokenNames.map((name) => [name, data.variables[name].title])));
    const numbers = conwalk.figure(document.getElementById("token-energy"), { title: "Numbers of every token", height: height(), draw: () => drawNumbers(numbers), ...toLayer });
    conwalk.on(["prompt", "tokenName", "text"], numbers.update);
  }
})(window.conwalk);
