// Brings a report to life: unpacks Plotly, makes the controls, draws the figures.
(function (conwalk) {
  "use strict";

  async function start() {
    conwalk.data = conwalk.readData();
    Object.assign(conwalk.state, { over: 0, prompt: 0, layer: Math.floor((conwalk.data.layers.length - 1) / 2), head: 0, token: 0 });
    await conwalk.loadPlotly();
    conwalk.startCurves();
    conwalk.startStability();
    conwalk.startLedger();
    conwalk.startHeads();
    conwalk.startLayer();
    conwalk.startTokens();
    followContents();
    await conwalk.drawRest();
  }

  // The entry of the section in view is marked; a link to a definition opens what hides it.
  function followContents() {
    const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
    const inView = new Set();
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) inView[isIntersecting ? "add" : "delete"](target.id);
      const current = [...links.keys()].find((id) => inView.has(id));
      for (const [id, link] of links) {
        if (id !== current) link.removeAttribute("aria-current");
        else if (!link.hasAttribute("aria-current")) {
          link.setAttribute("aria-current", "true");
          const bar = link.closest(".contents");
          bar.scrollTo({ left: link.offsetLeft - bar.clientWidth / 2 + link.offsetWidth / 2 });
        }
      }
    }, { rootMargin: "-20% 0px -70% 0px" });
    for (const id of links.keys()) observer.observe(document.getElementById(id));
    const open = () => {
      const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target) return;
      for (let hidden = target.closest("details"); hidden; hidden = hidden.parentElement.closest("details")) hidden.open = true;
      target.scrollIntoView();
    };
    window.addEventListener("hashchange", open);
    open();
  }

  document.addEventListener("DOMContentLoaded", () => start().catch(conwalk.fail));
})(window.conwalk);
