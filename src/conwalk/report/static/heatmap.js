// Images of numbers: colour scales, what a cell says, and a cursor that the arrow keys move.
(function (conwalk) {
  "use strict";

  // Viridis, and blue to orange through the ground: both read the same to all eyes.
  const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6dcd59", "#b4de2c", "#fde725"];
  const diverging = () => (conwalk.isDark()
    ? ["#7cc0ff", "#4a86b8", "#2b4a66", "#22262d", "#6b4a2a", "#b87a3c", "#ffb066"]
    : ["#0b4f8a", "#4d8dc2", "#a9cbe5", "#f5f5f5", "#f0c29a", "#d5833a", "#9c4400"]);

  // map: values (rows of numbers), signed, log, passed(row, column) for cells that set no colours,
  // text(row, column) for the cell under the pointer, gap between the cells.
  conwalk.heatmapTrace = function (map) {
    const known = conwalk.finite(map.values.flatMap((row, i) => (map.passed ? row.filter((_, j) => !map.passed(i, j)) : row)));
    const z = map.log ? map.values.map((row) => row.map((v) => (v > 0 ? Math.log10(v) : null))) : map.values;
    const limits = span(map, known);
    const colours = map.signed ? diverging() : VIRIDIS;
    return {
      type: "heatmap", z, zmin: limits.low, zmax: limits.high, xgap: map.gap || 0, ygap: map.gap || 0, hoverongaps: false,
      text: map.values.map((row, i) => row.map((_, j) => map.text(i, j))), hovertemplate: "%{text}<extra></extra>",
      colorscale: colours.map((colour, i) => [i / (colours.length - 1), colour]),
      // the page has a legend of its own; pictures that are saved have Plotly's
      showscale: false, meta: { colours, ends: ends(map, limits) },
      colorbar: { thickness: 8, outlinewidth: 0, ...bar(map, limits) },
    };
  };

  // Where the colours begin and end. A few outliers do not take the colours from all the others.
  function span(map, known) {
    if (!known.length) return { low: 0, high: 1 };
    const numbers = map.log ? known.filter((v) => v > 0).map(Math.log10) : known;
    const sorted = Float64Array.from(numbers).sort();
    if (!sorted.length) return { low: -4, high: 0 };
    const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    let [low, high] = [sorted[0], sorted.at(-1)];
    const most = high;
    const cut = { low: false, high: false };
    if (map.signed) {
      const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
      const usual = Math.max(Math.abs(at(0.01)), Math.abs(at(0.99)));
      const used = usual > 0 && reach > 3 * usual ? usual : reach;
      return { low: -used, high: used, cut: { low: low < -used, high: high > used } };
    }
    const inner = at(0.99) - at(0.01);
    if (map.log) {
      low = Math.max(low, most - 4);
      cut.low = sorted[0] < low;
    } else if (inner > 0 && high - low > 3 * inner) {
      [low, high] = [Math.max(low, at(0.01) - inner / 2), Math.min(high, at(0.99) + inner / 2)];
      [cut.low, cut.high] = [sorted[0] < low, most > high];
    }
    return low < high ? { low, high, cut } : { low: low - 0.5, high: high + 0.5, cut, flat: true };
  }

  const real = (map, v) => (map.log ? 10 ** v : v);

  function ends(map, { low, high, cut, flat }) {
    if (flat) return ["", conwalk.short(real(map, (low + high) / 2)), ""];
    const [first, last] = [low, high].map((v) => conwalk.short(real(map, v)));
    return [`${cut?.low ? "≤ " : ""}${first}`, conwalk.short(real(map, (low + high) / 2)), `${cut?.high ? "≥ " : ""}${last}`];
  }

  function bar(map, { low, high }) {
    const places = [low, (low + high) / 2, high];
    return { tickmode: "array", tickvals: places, ticktext: places.map((v) => conwalk.short(real(map, v))) };
  }

  // A frame around one cell.
  conwalk.cellFrame = (column, row, colour = "text") => ({
    type: "rect", x0: column - 0.5, x1: column + 0.5, y0: row - 0.5, y1: row + 0.5,
    line: { color: conwalk.colour(colour), width: 2.5 },
  });

  // Labels for an axis of tokens: as many as there is room for.
  conwalk.ticks = function (labels, pixels, range) {
    const first = Math.max(0, Math.ceil(range ? Math.min(...range) : 0));
    const last = Math.min(labels.length - 1, Math.floor(range ? Math.max(...range) : labels.length - 1));
    const step = Math.max(1, Math.ceil(((last - first + 1) * 13) / Math.max(pixels, 1)));
    const places = [];
    for (let place = first; place <= last; place += step) places.push(place);
    return { tickmode: "array", tickvals: places, ticktext: places.map((p) => conwalk.escape(clipped(labels[p]))) };
  };

  // What keeps a text within itself stays whole.
  function clipped(text) {
    const bare = text.replace(/^\u2068|\u2069$/g, "");
    const signs = Array.from(bare);
    const kept = signs.length > 12 ? `${signs.slice(0, 11).join("")}…` : bare;
    return bare === text ? kept : conwalk.isolated(kept);
  }

  // Arrow keys move a cursor over the cells; Enter chooses; what is under it is read out.
  conwalk.steerByKeys = function (figure) {
    const { keys } = figure.spec;
    const voice = conwalk.element("p", { class: "figure-note cursor", "aria-live": "polite" });
    figure.body.after(voice);
    let cursor = null;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

    function show() {
      const [column, row] = cursor;
      const trace = figure.made.data[0];
      voice.textContent = unescaped(trace.text[row]?.[column] ?? "").replaceAll("<br>", " · ");
      const kept = (figure.made.layout.shapes || []);
      Plotly.relayout(figure.body, { shapes: [...kept, conwalk.cellFrame(column, row, "counter")] });
    }

    figure.body.addEventListener("keydown", (event) => {
      const trace = figure.made?.data?.[0];
      if (!trace) return;
      const [height, width] = [trace.z.length, trace.z[0].length];
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        if (cursor && keys.choose) keys.choose(cursor[0], cursor[1]);
        return;
      }
      const step = steps[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const upward = figure.made.layout.yaxis?.autorange === "reversed" ? -1 : 1;
      const start = cursor || (keys.start ? keys.start() : [0, 0]);
      cursor = cursor
        ? [Math.min(width - 1, Math.max(0, start[0] + step[0])), Math.min(height - 1, Math.max(0, start[1] + upward * step[1]))]
        : start;
      show();
    });
    figure.body.addEventListener("blur", () => { voice.textContent = ""; });
  };

  const unescaped = (text) => text.replaceAll("<b>", "").replaceAll("</b>", "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
})(window.conwalk);
