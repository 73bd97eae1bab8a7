// Brings static viewers to life: stepping, colouring, details. It reads the markup and one JSON
// block beside it, calls no host, and writes text only as text.
(() => {
  "use strict";
  const start = (root) => {
    const data = JSON.parse(root.querySelector(":scope > script.data").textContent);
    const find = (selector, from = root) => from.querySelector(selector);
    const all = (selector, from = root) => [...from.querySelectorAll(selector)];
    const controls = find(".controls"), slider = find(".slider"), play = find(".play");
    const status = find(".status"), detail = find(".detail"), runOn = find(".run-on");
    const lanes = all(".lane").map((node, n) => ({
      ...data.lanes[n], node, cells: all(".cells .t", node), rows: all(".block", node),
      count: find(".count", node), fill: find(".bar i", node), strip: all(".strip > li[data-settled]", node),
    }));
    const ranks = all(".ranks > li[data-settled]");
    const main = lanes[0];
    let ticks = data.ticks, timer = null;

    const stepAt = (lane, passes) => {
      let step = 0;
      while (step + 1 < lane.passes.length && lane.passes[step + 1] <= passes) step += 1;
      return step;
    };
    const blockOf = (lane, step) => {
      const found = lane.last.findIndex((last) => step <= last);
      return found < 0 ? lane.last.length - 1 : found;
    };
    const set = (node, name, on) => { if (node.classList.contains(name) !== on) node.classList.toggle(name, on); };

    const draw = (lane, passes) => {
      const step = stepAt(lane, passes), block = blockOf(lane, step);
      // a canvas stands before its first commit only where a pass has been made on it
      const begun = lane.B === 1 ? lane.steps.map((g) => g > 0 && g <= step) : null;
      let shown = 0;
      lane.cells.forEach((cell, place) => {
        const g = lane.steps[place], here = Math.floor(place / lane.B);
        const out = g > 0 && g <= step;
        const state = out ? (g === step ? "now" : "out")
          : begun ? "waiting" : here > block ? "waiting" : g === 0 && step > lane.last[here] - 1 ? "never" : "masked";
        if (out && place < lane.length) shown += 1;
        if (cell.dataset.state !== state) {
          cell.dataset.state = state;
          for (const name of ["now", "masked", "waiting", "never"]) set(cell, name, name === state);
          const where = `position ${place + 1}${lane.B > 1 ? `, block ${here + 1}` : ""}: `;
          cell.setAttribute("aria-label", where + ({ masked: "masked", waiting: "not begun", never: "never committed" }[state]
            ?? `${lane.words[place]}, step ${g}, confidence ${lane.confidence[place].toFixed(2)}${place < lane.length ? "" : ", after the end"}`));
        }
      });
      lane.rows.forEach((row) => set(row, "active", lane.B > 1 && +row.dataset.block === block && step < lane.passes.length - 1));
      for (const one of lane.strip) set(one, "unsettled", +one.dataset.settled > step);
      const nfe = lane.passes[step], done = step === lane.passes.length - 1;
      lane.count.textContent = `${shown} of ${lane.length} tokens, ${nfe} forward passes${done ? ", finished" : ""}`;
      lane.fill.style.width = `${(100 * shown) / lane.length}%`;
      return { step, block, shown, nfe, done };
    };

    const words = (passes, states) => {
      if (data.compare) {
        const each = lanes.map((lane, n) => `${lane.name} ${states[n].shown} of ${lane.length} tokens`);
        return `${passes} of ${ticks[ticks.length - 1]} forward passes: ${each.join(", ")}`;
      }
      const { step, block, nfe } = states[0];
      const masked = main.steps.slice(block * main.B, (block + 1) * main.B).filter((g) => g === 0 || g > step).length;
      const rest = lanes.slice(1).map((lane, n) => `; ${lane.name} has ${states[n + 1].shown} of ${lane.length} tokens after ${passes} passes`);
      return `step ${step} of ${main.passes.length - 1}, block ${block + 1} of ${main.last.length}, ${masked} masked, NFE ${nfe}${rest.join("")}`;
    };

    const show = () => {
      const passes = ticks[+slider.value];
      const states = lanes.map((lane) => draw(lane, passes));
      for (const row of ranks) {
        const open = +row.dataset.settled > states[0].step;
        if (row.classList.contains("unsettled") !== open) {
          row.classList.toggle("unsettled", open);
          if (open) row.setAttribute("aria-label", "not yet decided"); else row.removeAttribute("aria-label");
        }
      }
      const verdict = find(".side .verdict");
      if (verdict) verdict.style.visibility = states[0].done ? "" : "hidden";
      const text = words(passes, states);
      status.textContent = text;
      slider.setAttribute("aria-valuetext", text);
      if (held) describe(held);
    };
    const move = (to) => {
      const next = Math.max(0, Math.min(ticks.length - 1, to));
      if (next === +slider.value && slider.dataset.drawn) return;
      slider.value = next; slider.dataset.drawn = "1"; show();
    };

    const stop = () => {
      clearInterval(timer); timer = null; play.textContent = "Play"; status.setAttribute("aria-live", "polite");
    };
    const begin = () => {
      if (+slider.value === ticks.length - 1) move(0);
      play.textContent = "Pause"; status.setAttribute("aria-live", "off"); // a sentence a step would drown the reader
      timer = setInterval(() => {
        if (!root.isConnected) return stop();
        move(+slider.value + 1);
        if (+slider.value === ticks.length - 1) stop();
      }, Math.max(60, Math.min(320, 12000 / ticks.length)));
    };

    const make = (tag, text, name) => {
      const node = document.createElement(tag);
      if (text !== undefined) node.textContent = text;
      if (name) node.className = name;
      return node;
    };
    let held = null;
    const describe = (cell) => {
      const lane = lanes.find((one) => one.node.contains(cell)), place = lane.cells.indexOf(cell);
      if (held) held.classList.remove("held");
      held = cell; cell.classList.add("held");
      if (!detail) return;
      const g = lane.steps[place], open = ["masked", "waiting", "never"].includes(cell.dataset.state);
      const token = make("p", undefined, "token"), list = make("dl");
      token.append(open ? make("span", { masked: "masked", waiting: "not begun", never: "never committed" }[cell.dataset.state]) : make("bdi", lane.words[place]));
      const pair = (name, value) => list.append(make("dt", name), make("dd", value));
      pair("place", `position ${place + 1}${lane.B > 1 ? `, block ${Math.floor(place / lane.B) + 1}` : ""}${lanes.length > 1 ? `, ${lane.name}` : ""}`);
      if (!open) {
        pair("committed", `step ${g} of ${lane.passes.length - 1}${lane.B > 1 ? `, ${lane.reveal[place] + 1} in its block` : ""}, NFE ${lane.passes[g]}`);
        pair("confidence", lane.confidence[place].toFixed(3));
        pair("log-probability", `${Math.min(0, lane.logp[place]).toFixed(3).replace("-0.000", "0.000").replace("-", "−")} nats`);
        if (lane.other[place] !== null) pair(data.against, lane.other[place] === true ? "the same token" : lane.other[place] || "has no token here");
        if (place >= lane.length) pair("note", "after the end token, dropped");
      }
      const parts = [token, list], top = lane.top && lane.top[place];
      if (!open && top && top.length) {
        const guesses = make("ol", undefined, "guesses");
        guesses.setAttribute("aria-label", "likeliest tokens when it was committed");
        for (const [word, p] of top) {
          const row = make("li"), meter = make("span", undefined, "meter"), fill = make("i");
          fill.style.width = `${100 * p}%`; meter.append(fill); meter.setAttribute("aria-hidden", "true");
          row.append(make("bdi", word), meter, make("span", p < 0.0005 ? "< .001" : p.toFixed(3), "p")); guesses.append(row);
        }
        parts.push(guesses);
      }
      detail.replaceChildren(...parts);
    };

    const focusCell = (lane, place) => {
      const next = lane.cells[Math.max(0, Math.min(lane.cells.length - 1, place))];
      for (const cell of lane.cells) if (cell.tabIndex === 0) cell.tabIndex = -1;
      next.tabIndex = 0; next.focus();
    };
    const gridKeys = (event, cell) => {
      const lane = lanes.find((one) => one.node.contains(cell)), place = lane.cells.indexOf(cell);
      const row = Math.max(1, all(".t", cell.parentNode).length);
      const to = { ArrowLeft: place - 1, ArrowRight: place + 1, ArrowUp: place - row, ArrowDown: place + row, Home: 0, End: lane.cells.length - 1 }[event.key];
      if (to === undefined) return false;
      focusCell(lane, to);
      return true;
    };

    root.addEventListener("keydown", (event) => {
      event.stopPropagation(); // a notebook's own shortcuts stay out of the viewer
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const cell = event.target.closest(".cells .t");
      if (cell) { if (gridKeys(event, cell)) event.preventDefault(); return; }
      if (event.target.matches("input[type=radio], select, summary")) return;
      const at = +slider.value;
      const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 10, PageUp: at + 10, Home: 0, End: ticks.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault(); if (timer) stop(); move(to);
    });
    slider.addEventListener("input", () => { if (timer) stop(); show(); });
    play.addEventListener("click", () => (timer ? stop() : begin()));
    find(".back").addEventListener("click", () => { if (timer) stop(); move(+slider.value - 1); });
    find(".forth").addEventListener("click", () => { if (timer) stop(); move(+slider.value + 1); });
    controls.addEventListener("submit", (event) => event.preventDefault());
    controls.addEventListener("change", (event) => {
      if (event.target.name === "colour") root.dataset.colour = event.target.value;
      if (event.target === runOn) {
        const at = +slider.value;
        ticks = runOn.checked ? [...data.ticks, ...data.later] : data.ticks;
        slider.max = ticks.length - 1; slider.value = Math.min(at, ticks.length - 1); show();
      }
    });
    for (const lane of lanes) {
      lane.node.addEventListener("pointerover", (event) => {
        const cell = event.target.closest(".cells .t"); if (cell) describe(cell);
      });
      lane.node.addEventListener("focusin", (event) => {
        const cell = event.target.closest(".cells .t"); if (cell) describe(cell);
      });
      if (lane.cells.length) lane.cells[0].tabIndex = 0;
    }
    root.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab's word for the same
    for (const node of all(".live")) node.hidden = false;
    slider.max = ticks.length - 1; slider.value = ticks.length - 1;
    slider.dataset.drawn = "1"; show();
  };

  const wake = (root) => { if (!root.dataset.live) { root.dataset.live = "1"; start(root); } };
  const gallery = (root) => {
    root.dataset.live = "1";
    const sort = root.querySelector(".sort"), thumbs = root.querySelector(".thumbs");
    root.setAttribute("data-lm-suppress-shortcuts", "true");
    root.addEventListener("keydown", (event) => event.stopPropagation());
    for (const node of root.querySelectorAll(":scope > .live")) node.hidden = false;
    const order = () => {
      const key = sort.value;
      const items = [...thumbs.children].sort((a, b) => a.dataset[key] - b.dataset[key] || a.dataset.number - b.dataset.number);
      thumbs.append(...items);
    };
    sort.addEventListener("change", order);
    order();
    for (const one of thumbs.children) one.addEventListener("toggle", () => { if (one.open) wake(one.querySelector(".dgv")); });
  };
  for (const root of document.querySelectorAll(".dgv.gallery:not([data-live])")) gallery(root);
  for (const root of document.querySelectorAll(".dgv:not(.gallery):not([data-live])")) if (!root.closest(".thumb")) wake(root);
})();
