// Images of numbers: colour scales, what a cell says, and a cursor that the arrow keys move.
(function (conwalk) {
  "use strict";

  // Cividis, and blue to orange through the ground: both read the same to all eyes.
  const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
  const scale = (colours) => colours.map((colour, i) => [i / (colours.length - 1), colour]);
  const diverging = () => scale(conwalk.isDark()
    ? ["#7cc0ff", "#4a86b8", "#2b4a66", "#22262d", "#6b4a2a", "#b87a3c", "#ffb066"]
    : ["#0b4f8a", "#4d8dc2", "#a9cbe5", "#f5f5f5", "#f0c29a", "#d5833a", "#9c4400"]);

  // map: values (rows of numbers), x and y labels, signed, log, range, bar (title of the colours),
  // text(row, column) for the cell under the pointer, square cells or not.
  conwalk.heatmapTrace = function (map) {
    const known = conwalk.finite(map.values.flat());
    const z = map.log ? map.values.map((row) => row.map((v) => (v > 0 ? Math.log10(v) : null))) : map.values;
    const [low, high] = limits(map, known);
    return {
      type: "heatmap", z, zmin: low, zmax: high, xgap: map.gap || 0, ygap: map.gap || 0, hoverongaps: false,
      text: map.values.map((row, i) => row.map((_, j) => map.text(i, j))), hovertemplate: "%{text}<extra></extra>",
      colorscale: map.signed ? diverging() : scale(CIVIDIS),
      colorbar: bar(map, low, high),
    };
  };

  function limits(map, known) {
    if (!known.length) return [0, 1];
    const low = map.range?.[0] ?? Math.min(...minmax(known));
    const high = map.range?.[1] ?? Math.max(...minmax(known));
    if (map.signed) {
      const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
      return [-most, most];
    }
    if (!map.log) return low < high ? [low, high] : [low - 0.5, high + 0.5];
    const most = Math.log10(high > 0 ? high : 1);
    const positive = known.filter((v) => v > 0);
    const least = positive.length ? Math.log10(positive.reduce((a, b) => Math.min(a, b))) : most - 1;
    return [Math.max(least, most - 4), most > least ? most : most + 0.5];
  }

  // Math.min(...values) overflows the stack for large images.
  function minmax(values) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
    return [low, high];
  }

  function bar(map, low, high) {
    const ticks = map.log
      ? Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => Math.ceil(low) + i)
      : null;
    return {
      orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "bottom", len: map.barLength || 0.6, thickness: 8, outlinewidth: 0, xpad: 0, ypad: 6,
      tickfont: { size: 10, color: conwalk.colour("muted") }, nticks: 4, tickangle: 0,
      ...(ticks ? { tickvals: ticks, ticktext: ticks.map((t) => conwalk.short(10 ** t)) } : {}),
    };
  }

  // A frame around one cell.
  conwalk.cellFrame = (column, row, colour = "counter") => ({
    type: "rect", x0: column - 0.5, x1: column + 0.5, y0: row - 0.5, y1: row + 0.5,
    line: { color: conwalk.colour(colour), width: 2 },
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

  const clipped = (text) => { const signs = Array.from(text); return signs.length > 12 ? `${signs.slice(0, 11).join("")}…` : text; };

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
      Plotly.relayout(figure.body, { shapes: [...kept, conwalk.cellFrame(column, row, "text")] });
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
