// Layer × head: any quantity as a map, and all that is known of the head that was opened.
(function (conwalk) {
  "use strict";

  // Rows of heads, columns of layers; over: 0 for all prompts, then each.
  async function grid(ref, over) {
    const layers = await conwalk.perLayer(ref, over);
    const perHead = ref.axes.includes("head");
    return conwalk.data.heads.map((_, head) => layers.map((values) => (perHead ? values[head] : values[0])));
  }

  async function beside(record, over) {
    const { null: chance } = record;
    const part = async (name) => (chance?.[name] && chance[name].axes.includes("head") ? grid(chance[name], over) : null);
    const [z, q, mean] = await Promise.all([part("z"), part("q"), chance?.mean ? grid(chance.mean, over) : null]);
    return { z, q, mean };
  }

  conwalk.startHeads = function () {
    const { headNames, variables } = conwalk.data;
    const place = document.getElementById("head-map");
    if (!headNames.length) {
      place.replaceWith(conwalk.element("p", { class: "absent" }, "These results hold nothing about single heads. To measure them: conwalk analyze MODEL --metrics default"));
      document.getElementById("head-panel").hidden = true;
      return;
    }
    conwalk.state.metric = headNames.includes("rho") ? "rho" : headNames[0];
    conwalk.state.shownAs = "value";
    conwalk.controls("heads",
      conwalk.selectControl("Quantity", "metric", headNames.map((name) => [name, variables[name].title])),
      conwalk.toggleControl("Shown as", "shownAs", [["value", "Value"], ["z", "z against its null"]]));
    if (conwalk.data.allPrompts > 1) conwalk.controls("heads", conwalk.selectControl("Texts", "over", conwalk.overOptions()));
    const height = 52 + Math.max(1, conwalk.data.heads.length) * Math.max(14, Math.min(26, 420 / conwalk.data.heads.length));
    const figure = conwalk.figure(place, {
      title: "Layer by head", height, href: "#definitions", draw: drawMap,
      onClick: (point) => openHead(point.x, point.y),
      keys: { choose: openHead, start: () => [conwalk.state.layer, conwalk.state.head] },
    });
    conwalk.on(["over", "metric", "shownAs", "layer", "head"], figure.update);
    startPanel();
  };

  function openHead(layer, head) {
    conwalk.choose({ layer, head });
    const panel = document.getElementById("head-panel");
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest" });
  }

  async function drawMap() {
    const { data, state } = conwalk;
    const record = data.variables[state.metric];
    const [values, near] = await Promise.all([grid(record.numbers, state.over), beside(record, state.over)]);
    const asZ = state.shownAs === "z" && near.z;
    const shown = asZ ? near.z : values;
    if (!conwalk.finite(shown.flat()).length) return { empty: "No head has a number here." };
    const signed = asZ || (record.range[0] !== null ? record.range[0] < 0 : conwalk.finite(values.flat()).some((v) => v < 0));
    const words = (head, layer) => [
      `<b>head ${data.heads[head]} of layer ${conwalk.escape(data.layers[layer].label)}</b>`,
      `${conwalk.escape(record.title)}: ${conwalk.short(values[head][layer])}`,
      near.mean ? `chance: ${conwalk.short(near.mean[head][layer])}` : "",
      near.z ? `z ${conwalk.signed(near.z[head][layer])}, q ${conwalk.short(near.q ? near.q[head][layer] : NaN)}` : "",
    ].filter(Boolean).join("<br>");
    const note = state.shownAs === "z" && !near.z ? `${record.meaning}. It has no z: its null has no spread, so the values are shown.` : record.meaning;
    return {
      title: `${record.title}${asZ ? ", z" : ""}`, heading: record.title, symbol: record.symbol, href: `#def-${state.metric}`, note,
      data: [conwalk.heatmapTrace({ values: shown, signed, gap: 1, text: words })],
      layout: {
        xaxis: { ...conwalk.layerAxis(), showgrid: false },
        yaxis: { title: "head", autorange: "reversed", showgrid: false, tickmode: "array", tickvals: data.heads.map((_, i) => i), ticktext: data.heads.map(String) },
        margin: { l: 8, r: 8, t: 4, b: 8 }, shapes: [conwalk.cellFrame(state.layer, state.head)],
      },
      table: () => ({
        head: ["layer", ...data.heads.map((head) => `head ${head}`)],
        rows: data.layers.map((layer, i) => [layer.label, ...shown.map((row) => row[i])]),
      }),
    };
  }

  function startPanel() {
    const { data } = conwalk;
    conwalk.controls("head",
      conwalk.selectControl("Layer", "layer", conwalk.layerOptions()),
      conwalk.selectControl("Head", "head", data.heads.map((head, i) => [i, String(head)])));
    const figure = conwalk.figure(document.getElementById("head-singular"), { title: "Singular values of the head", height: 280, draw: () => conwalk.drawSingular(true) });
    const show = () => { figure.update(); describe().catch(conwalk.fail); };
    conwalk.on(["layer", "head", "over"], show);
    show();
  }

  async function describe() {
    const { data, state } = conwalk;
    const { layer, head, over } = state;
    document.getElementById("head-title").textContent = `Head ${data.heads[head]} of layer ${data.layers[layer].label}`;
    const rows = await Promise.all(data.headNames.map(async (name) => {
      const record = data.variables[name];
      const [values, near] = await Promise.all([grid(record.numbers, over), beside(record, over)]);
      const value = values[head][layer];
      const all = conwalk.finite(values.flat());
      const place = Number.isFinite(value) ? `${all.filter((v) => v > value).length + 1} of ${all.length}` : "–";
      return [record.title, value, near.mean ? near.mean[head][layer] : NaN, near.z ? near.z[head][layer] : NaN, near.q ? near.q[head][layer] : NaN, place];
    }));
    if (layer !== state.layer || head !== state.head || over !== state.over) return;
    const table = { head: ["quantity", "value", "chance", "z", "q", "rank"], rows };
    document.getElementById("head-table").replaceChildren(conwalk.tableElement("This head in numbers", table));
  }
})(window.conwalk);
