// What a figure can be saved as: its numbers as a table or CSV, its picture as SVG or PNG.
(function (conwalk) {
  "use strict";

  const fileName = (title) => title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "figure";

  function save(url, name) {
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
  }

  // A cell is a number, a text, or missing; a text that a spreadsheet would run is defused.
  function csvCell(cell) {
    if (cell === null || cell === undefined || (typeof cell === "number" && Number.isNaN(cell))) return "";
    if (typeof cell === "number") return String(cell);
    const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : String(cell);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  conwalk.csv = ({ head, rows }) => [head, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";

  conwalk.saveCsv = function (title, table) {
    const url = URL.createObjectURL(new Blob(["\ufeff", conwalk.csv(table)], { type: "text/csv;charset=utf-8" }));
    save(url, `${fileName(title)}.csv`);
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };

  conwalk.saveImage = async function (title, plot, format) {
    const layout = {
      ...plot.layout,
      title: { text: conwalk.escape(title), x: 0, xref: "paper", font: { size: 14 } },
      margin: { ...plot.layout.margin, t: 44 },
      paper_bgcolor: conwalk.colour("ground"),
      height: plot.offsetHeight + 40,
      width: plot.offsetWidth,
    };
    const data = plot.data.map((trace) => (trace.type === "heatmap" ? { ...trace, showscale: true } : trace));
    const url = await Plotly.toImage({ data, layout }, {
      format, width: layout.width, height: layout.height, scale: format === "png" ? 2 : 1,
    });
    save(url, `${fileName(title)}.${format}`);
  };

  // Plotly reads a little HTML; text that is not ours must not be read so.
  conwalk.escape = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  const MOST_ROWS = 500;

  conwalk.tableElement = function (caption, { head, rows }) {
    const scroll = conwalk.element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": `Table: ${caption}` });
    const table = conwalk.element("table");
    const body = conwalk.element("tbody");
    table.append(conwalk.element("caption", { class: "visually-hidden" }, caption));
    table.append(conwalk.element("thead", {}, conwalk.element("tr", {}, ...head.map((cell) => conwalk.element("th", { scope: "col" }, cell)))));
    for (const row of rows.slice(0, MOST_ROWS)) {
      const cells = row.map((cell, i) => {
        const text = typeof cell === "number" && i > 0 ? conwalk.short(cell) : cell === null ? "–" : String(cell);
        return i === 0 ? conwalk.element("th", { scope: "row" }, conwalk.element("bdi", {}, text)) : conwalk.element("td", {}, conwalk.element("bdi", {}, text));
      });
      body.append(conwalk.element("tr", {}, ...cells));
    }
    table.append(body);
    scroll.append(table);
    if (rows.length > MOST_ROWS) scroll.append(conwalk.element("p", { class: "figure-note" }, `The first ${MOST_ROWS} of ${rows.length} rows; the CSV has all.`));
    return scroll;
  };

  conwalk.element = function (tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
})(window.conwalk);
