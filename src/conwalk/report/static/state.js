// What the reader has chosen, and the controls that choose it; whoever shows it listens.
(function (conwalk) {
  "use strict";
  const listeners = new Map();
  conwalk.state = {};

  conwalk.on = function (names, listener) {
    for (const name of names) {
      if (!listeners.has(name)) listeners.set(name, new Set());
      listeners.get(name).add(listener);
    }
  };

  conwalk.choose = function (choices) {
    const told = new Set();
    for (const [name, value] of Object.entries(choices)) {
      if (conwalk.state[name] === value) continue;
      conwalk.state[name] = value;
      for (const listener of listeners.get(name) || []) told.add(listener);
    }
    for (const listener of told) listener();
  };

  // options: [value, words] pairs. A control shows what is chosen, whoever chose it.
  conwalk.selectControl = function (words, name, options) {
    const select = conwalk.element("select", { name });
    for (const [value, text] of options) select.append(conwalk.element("option", { value: String(value) }, text));
    const find = () => options.findIndex(([value]) => value === conwalk.state[name]);
    const show = () => { select.selectedIndex = Math.max(0, find()); };
    select.addEventListener("change", () => conwalk.choose({ [name]: options[select.selectedIndex][0] }));
    conwalk.on([name], show);
    show();
    const label = conwalk.element("label", { class: "field" }, conwalk.element("span", {}, words), select);
    return label;
  };

  conwalk.toggleControl = function (words, name, options) {
    const box = conwalk.element("fieldset", { class: "switch" }, conwalk.element("legend", { class: "visually-hidden" }, words));
    const inputs = options.map(([value, text]) => {
      const input = conwalk.element("input", { type: "radio", name: `switch-${name}`, value: String(value) });
      input.addEventListener("change", () => conwalk.choose({ [name]: value }));
      box.append(conwalk.element("label", {}, input, conwalk.element("span", {}, text)));
      return input;
    });
    const show = () => inputs.forEach((input, i) => { input.checked = options[i][0] === conwalk.state[name]; });
    conwalk.on([name], show);
    show();
    return conwalk.element("div", { class: "field" }, box);
  };

  // Every place that asks for these controls gets its own.
  conwalk.controls = function (place, ...made) {
    document.querySelector(`[data-controls="${place}"]`)?.append(...made);
  };

  conwalk.promptOptions = () => conwalk.data.prompts.map((prompt, i) => [i, `${prompt.name} (${prompt.tokens.length} tokens)`]);
  conwalk.layerOptions = () => conwalk.data.layers.map((layer, i) => [i, layer.label]);

  // 0 stands for all prompts, and each prompt follows: the order of the numbers in the page.
  conwalk.overOptions = function () {
    const all = conwalk.data.allPrompts;
    return [[0, all > 1 ? `all ${all} prompts` : "the prompt"], ...(all > 1 ? conwalk.data.prompts.map((prompt, i) => [i + 1, prompt.name]) : [])];
  };

  // White space as signs, and text that runs from right to left kept within itself.
  const SIGNS = { "\n": "↵", "\t": "⇥", "\r": "␍", "\u2028": "↵", "\u2029": "↵", "\u00a0": "⍽" };
  conwalk.visible = function (token) {
    if (token === "") return "∅";
    const edges = token.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
    return edges.replace(/[\n\t\r\u2028\u2029\u00a0]/g, (sign) => SIGNS[sign]).replace(/[\u0000-\u001f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)))
      // what would turn the text around or cannot be seen is named; the joiners of emoji stay
      .replace(/[\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (sign) => `⟨${sign.charCodeAt(0).toString(16)}⟩`);
  };
  conwalk.isolated = (text) => `\u2068${text}\u2069`;
})(window.conwalk);
