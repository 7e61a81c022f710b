// Numbers as the page writes them: three digits, as conwalk/report/digits.py does.
(function (conwalk) {
  "use strict";
  const DIGITS = 3;

  conwalk.short = function (value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const sign = value < 0 ? "−" : "";
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size === Infinity) return `${sign}∞`;
    const [mantissa, exponent] = size.toExponential(DIGITS - 1).split("e");
    const power = Number(exponent);
    if (power >= -3 && power < 6) return sign + plain(mantissa, power);
    return `${sign}${mantissa}e${power < 0 ? "−" : ""}${Math.abs(power)}`;
  };

  // The digits with the point where the power puts it; what is beyond them is zeros.
  function plain(mantissa, power) {
    const digits = mantissa.replace(".", "");
    if (power < 0) return `0.${"0".repeat(-power - 1)}${digits}`;
    if (power >= DIGITS - 1) return digits + "0".repeat(power - DIGITS + 1);
    return `${digits.slice(0, power + 1)}.${digits.slice(power + 1)}`;
  }

  // A number with its sign, for what is a difference.
  conwalk.signed = (value) => (value > 0 ? "+" : "") + conwalk.short(value);
})(window.conwalk);
