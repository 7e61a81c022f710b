// A figure: heading, plot, downloads, and the table of its numbers; drawn when it comes near the window.
(function (conwalk) {
  "use strict";
  const figures = [];
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const narrow = () => window.innerWidth < 560;

  // Fonts, grid and colours that all plots share; a figure's own layout is laid over them.
  conwalk.layout = function (own = {}) {
    const axis = {
      gridcolor: conwalk.colour("grid"), linecolor: conwalk.colour("line"), zeroline: false, ticks: "",
      automargin: true, title: { standoff: 8, font: { color: conwalk.colour("muted"), size: 12 } },
      tickfont: { color: conwalk.colour("muted"), size: 11 },
    };
    return {
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: conwalk.colour("text") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 8, t: 8, b: 8 }, showlegend: false, dragmode: false, hovermode: "closest",
      hoverlabel: {
        bgcolor: conwalk.colour("raised"), bordercolor: conwalk.colour("line"), align: "left",
        font: { family: getComputedStyle(document.body).fontFamily, color: conwalk.colour("text"), size: 12 },
      },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 11, color: conwalk.colour("muted") } },
      ...own,
      xaxis: merged(axis, own.xaxis), yaxis: merged(axis, own.yaxis),
    };
  };

  function merged(base, own = {}) {
    const title = typeof own.title === "string" ? { ...base.title, text: own.title } : base.title;
    return { ...base, ...own, title };
  }

  // spec: title, symbol, note (text or function), draw() → { data, layout, table, height } or { empty: words };
  // onClick(point) and keys (see heatmap.js) where there is something to choose.
  conwalk.figure = function (element, spec) {
    const figure = { element, spec, drawn: false, plot: null, table: null };
    const head = conwalk.element("div", { class: "figure-head" }, conwalk.element("h4", {}, spec.title));
    figure.head = head.firstChild;
    figure.symbol = conwalk.element(spec.href ? "a" : "span", { class: "symbol", href: spec.href }, spec.symbol || "");
    head.append(figure.symbol);
    figure.note = conwalk.element("p", { class: "figure-note" });
    figure.body = conwalk.element("div", { class: "figure-plot", role: spec.keys ? "application" : "img", "aria-label": spec.title });
    figure.body.style.minHeight = `${spec.height || 220}px`;
    if (spec.keys) figure.body.tabIndex = 0;
    figure.legend = conwalk.element("div", { class: "legend", "aria-hidden": "true" });
    figure.empty = conwalk.element("p", { class: "figure-empty" });
    figure.empty.hidden = true;
    figure.tools = tools(figure);
    figure.tableBox = conwalk.element("div", { class: "figure-table" });
    figure.tableBox.hidden = true;
    element.append(head, figure.note, figure.legend, figure.body, figure.empty, figure.tools, figure.tableBox);
    figure.update = () => (figure.drawn ? draw(figure) : Promise.resolve());
    figures.push(figure);
    watch(figure);
    return figure;
  };

  function tools(figure) {
    const box = conwalk.element("div", { class: "figure-tools" });
    const add = (words, action) => {
      const title = figure.spec.title;
      const button = conwalk.element("button", { type: "button", "aria-label": `${words}: ${title}` }, words);
      button.addEventListener("click", () => action(button));
      box.append(button);
      return button;
    };
    add("Table", (button) => {
      figure.tableBox.hidden = !figure.tableBox.hidden;
      button.setAttribute("aria-expanded", String(!figure.tableBox.hidden));
      showTable(figure);
    }).setAttribute("aria-expanded", "false");
    add("CSV", () => conwalk.saveCsv(figure.fullTitle, figure.table()));
    add("SVG", () => conwalk.saveImage(figure.fullTitle, figure.plot, "svg"));
    add("PNG", () => conwalk.saveImage(figure.fullTitle, figure.plot, "png"));
    return box;
  }

  function showTable(figure) {
    if (figure.tableBox.hidden || !figure.table) return;
    figure.tableBox.replaceChildren(conwalk.tableElement(figure.fullTitle, figure.table()));
  }

  const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  // What the colours of an image mean, from the least to the most.
  function showLegend(figure, meta) {
    figure.legend.hidden = !meta?.colours;
    if (!meta?.colours) return;
    const ramp = conwalk.element("div", { class: "legend-ramp" });
    ramp.style.background = `linear-gradient(to right, ${meta.colours.join(", ")})`;
    figure.legend.replaceChildren(ramp, conwalk.element("div", { class: "legend-ends" }, ...meta.ends.map((words) => conwalk.element("span", {}, words))));
  }

  async function draw(figure) {
    const { spec } = figure;
    figure.drawn = true;
    const turn = (figure.turn = (figure.turn || 0) + 1);
    const made = await spec.draw();
    if (turn !== figure.turn) return; // a later choice overtook this one
    figure.fullTitle = made.title || spec.title;
    figure.head.textContent = made.heading || spec.title;
    if (made.symbol !== undefined) figure.symbol.textContent = made.symbol;
    if (made.href) figure.symbol.href = made.href;
    figure.note.textContent = sentence(made.note || spec.note || "");
    figure.note.hidden = !figure.note.textContent;
    figure.empty.hidden = !made.empty;
    figure.body.hidden = figure.tools.hidden = figure.legend.hidden = Boolean(made.empty);
    figure.table = made.empty ? null : typeof made.table === "function" ? made.table : () => made.table;
    figure.made = made;
    if (made.empty) {
      figure.empty.textContent = made.empty;
      figure.tableBox.hidden = true;
    } else {
      await paint(figure, made);
      showTable(figure);
    }
    figure.element.dataset.drawn = made.empty ? "empty" : "yes";
  }

  async function paint(figure, made) {
    const height = made.height || figure.spec.height || 220;
    figure.body.style.minHeight = `${height}px`;
    figure.body.setAttribute("aria-label", [figure.fullTitle, made.note || figure.spec.note, made.describe].filter(Boolean).join(". "));
    showLegend(figure, made.data[0]?.meta);
    const layout = conwalk.layout({ ...made.layout, height });
    if (touch || narrow()) layout.dragmode = false;
    const config = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false, typesetMath: false };
    const first = !figure.plot;
    figure.plot = await Plotly.react(figure.body, made.data, layout, config);
    if (first && figure.spec.onClick) figure.plot.on("plotly_click", (event) => figure.spec.onClick(event.points[0], figure));
    if (first && figure.spec.onZoom) figure.plot.on("plotly_relayout", (change) => figure.spec.onZoom(change, figure));
    if (first && figure.spec.keys) conwalk.steerByKeys(figure);
  }

  // What is near the window is drawn at once, the rest when the browser has time.
  const queue = new Set();
  let working = false;
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      const figure = figures.find((f) => f.element === entry.target);
      observer.unobserve(entry.target);
      if (figure && queue.delete(figure)) guarded(figure);
    }
  }, { rootMargin: "400px" });

  function watch(figure) {
    queue.add(figure);
    observer.observe(figure.element);
  }

  function guarded(figure) {
    return draw(figure).catch((error) => conwalk.fail(error));
  }

  // A frame that is out of sight has no idle time; it must not wait for it forever.
  const idle = () => new Promise((resume) => (window.requestIdleCallback ? window.requestIdleCallback(resume, { timeout: 200 }) : setTimeout(resume)));

  conwalk.drawRest = async function () {
    if (working) return;
    working = true;
    while (queue.size) {
      const [figure] = queue;
      queue.delete(figure);
      observer.unobserve(figure.element);
      await guarded(figure);
      await idle();
    }
    working = false;
    document.documentElement.dataset.ready = "yes";
  };

  conwalk.fail = function (error) {
    const place = document.getElementById("failure");
    place.textContent = `This page could not be drawn in full: ${error.message}`;
    place.hidden = false;
    console.error(error);
  };

  conwalk.figures = figures;
  conwalk.onTheme(() => figures.forEach((figure) => figure.update().catch(conwalk.fail)));
  window.addEventListener("beforeprint", () => figures.forEach((figure) => figure.plot && Plotly.Plots.resize(figure.plot)));
})(window.conwalk);
