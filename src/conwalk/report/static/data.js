// Reads what the page carries: one JSON record, and arrays in blocks that are unpacked when needed.
(function (conwalk) {
  "use strict";
  const LEAST = -22; // the power of ten of exponent 0
  const cache = new Map();
  let table = null;

  conwalk.readData = () => JSON.parse(document.getElementById("data").textContent);

  async function unpacked(id) {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("This browser cannot unpack the page (no DecompressionStream): open it with one from 2023 or later.");
    }
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  conwalk.loadPlotly = async function () {
    const code = document.createElement("script");
    code.textContent = new TextDecoder().decode(await unpacked("plotly-code"));
    document.head.append(code);
  };

  // Bytes come as planes: all first bytes, then all second ones.
  function joined(planes, width) {
    const count = planes.length / width;
    const bytes = new Uint8Array(planes.length);
    for (let plane = 0; plane < width; plane++) {
      for (let i = 0; i < count; i++) bytes[i * width + plane] = planes[plane * count + i];
    }
    return bytes.buffer;
  }

  // Sign, 5 bits of exponent, 10 bits of digits; digits 1023 are no number.
  function decimals() {
    if (table) return table;
    table = new Float64Array(1 << 16);
    for (let word = 0; word < 1 << 15; word++) {
      const digits = word & 1023;
      const value = digits === 1023 ? NaN : Number(`${digits}e${(word >> 10) + LEAST}`);
      table[word] = value;
      table[word | (1 << 15)] = -value;
    }
    return table;
  }

  // A flat array of numbers and its shape; null for what the page does not hold.
  conwalk.array = function (ref) {
    if (!ref) return Promise.resolve(null);
    if (!cache.has(ref.block)) cache.set(ref.block, read(ref));
    return cache.get(ref.block);
  };

  async function read(ref) {
    const planes = await unpacked(`block-${ref.block}`);
    if (ref.kind === "exact") return { values: new Float64Array(joined(planes, 8)), shape: ref.shape };
    const words = new Uint16Array(joined(planes, 2));
    const known = decimals();
    return { values: Float64Array.from(words, (word) => known[word]), shape: ref.shape };
  }

  // The rows of a matrix, as Plotly wants them; null where there is no number.
  conwalk.rows = function (values, height, width, offset = 0) {
    return Array.from({ length: height }, (_, row) =>
      Array.from(values.subarray(offset + row * width, offset + (row + 1) * width), (v) => (Number.isNaN(v) ? null : v)));
  };

  conwalk.finite = (values) => Array.from(values).filter((v) => v !== null && Number.isFinite(v));

  conwalk.mean = (values) => {
    const known = conwalk.finite(values);
    return known.length ? known.reduce((sum, v) => sum + v, 0) / known.length : NaN;
  };

  // By straight lines between the sorted values, as numpy does.
  conwalk.quantile = (values, share) => {
    const known = conwalk.finite(values).sort((a, b) => a - b);
    if (!known.length) return NaN;
    const place = share * (known.length - 1);
    const low = Math.floor(place);
    const high = Math.min(low + 1, known.length - 1);
    return known[low] + (known[high] - known[low]) * (place - low);
  };
})(window.conwalk);
