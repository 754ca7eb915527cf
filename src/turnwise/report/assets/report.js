
"use strict";
(() => {
  const PAGE_SIZE = 25;
  const MOST_PRINTED = 300;
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const root = document.documentElement;
  root.classList.add("js");

  /* Everything shown goes through textContent: text from the data is never markup. */
  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  }
  function said(tag, className, text) {
    const element = make(tag, className, text);
    element.dir = "auto";
    return element;
  }
  function show(value, places) {
    if (value === null) return "–";
    const text = value.toFixed(places);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
  }
  /* A missing value goes last, whichever way the others run. */
  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    return (typeof a === "string" ? a.localeCompare(b) : a - b) * sign;
  }

  // --- theme ---------------------------------------------------------------------------------------------
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // --- sortable tables -----------------------------------------------------------------------------------
  function markSorted(head, heading, descending) {
    for (const other of head.querySelectorAll("th")) other.removeAttribute("aria-sort");
    if (heading) heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      heading.querySelector("button").addEventListener("click", () => {
        const current = heading.getAttribute("aria-sort");
        const descending = current ? current === "ascending" : column > 0;
        const value = (row) => {
          const text = row.cells[column].dataset.value;
          return column === 0 ? text : text === "" ? null : Number(text);
        };
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => compare(value(a), value(b), descending ? -1 : 1));
        table.tBodies[0].append(...rows);
        markSorted(table.tHead, heading, descending);
      });
    });
  }

  // --- best and worst ------------------------------------------------------------------------------------
  const endsPicker = byId("ends-metric");
  if (endsPicker) {
    const choose = () => {
      for (const block of document.querySelectorAll(".ends")) {
        block.classList.toggle("shown", block.dataset.end === endsPicker.value);
      }
    };
    endsPicker.addEventListener("change", choose);
    choose();
  }

  // --- the table of turns --------------------------------------------------------------------------------
  const state = { search: "", system: "", sort: null, descending: false, noted: false, context: null, page: 0 };
  const table = byId("turn-table");
  const body = table.tBodies[0];
  const swatchOf = (system) => `swatch s${system % 10}`;
  const reach = data.metrics.map((_, column) => {
    let low = Infinity, high = -Infinity;
    for (const turn of data.turns) {
      const value = turn.x[column];
      if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    }
    return [low, high];
  });
  const answers = new Map();
  for (const turn of data.turns) answers.set(turn.c, (answers.get(turn.c) || 0) + 1);

  function haystack(turn) {
    if (turn.hay === undefined) {
      const texts = [turn.id, turn.r, ...data.texts[turn.c], ...data.texts[turn.ref], ...data.texts[turn.f]];
      turn.hay = texts.join("\n").toLocaleLowerCase();
    }
    return turn.hay;
  }
  function matching() {
    const words = state.search.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const found = data.turns.filter((turn) =>
      (state.system === "" || turn.s === Number(state.system))
      && (state.context === null || turn.c === state.context)
      && (!state.noted || Object.keys(turn.n).length > 0)
      && words.every((word) => haystack(turn).includes(word)));
    const column = state.sort;
    if (column !== null) found.sort((a, b) => compare(a.x[column], b.x[column], state.descending ? -1 : 1));
    return found;
  }
  function systemLabel(system) {
    const label = make("span", "system");
    label.append(make("span", swatchOf(system)), make("bdi", "", data.systems[system]));
    label.firstChild.setAttribute("aria-hidden", "true");
    return label;
  }
  function scoreCell(turn, column) {
    const value = turn.x[column], [low, high] = reach[column];
    const cell = make("td", "score num" + (state.sort === column ? " sorted" : ""), show(value, data.metrics[column].places));
    if (value !== null && high > low) {
      const share = make("span", "share");
      share.style.width = `${Math.round(100 * (value - low) / (high - low))}%`;
      cell.append(share);
    }
    return cell;
  }
  function turnRow(turn) {
    const row = make("tr", "turn");
    const who = make("td", "who");
    const open = make("button", "open-turn", "›");
    open.type = "button";
    open.setAttribute("aria-expanded", "false");
    open.setAttribute("aria-label", `Details of ${turn.id}`);
    const name = make("div");
    name.append(systemLabel(turn.s), make("bdi", "id", turn.id));
    who.append(make("div", "who-inside"));
    who.firstChild.append(open, name);
    const conversation = make("td", "conversation");
    const context = data.texts[turn.c];
    if (context.length) conversation.append(said("span", "before", context[context.length - 1]));
    conversation.append(said("span", "reply", turn.r));
    row.append(who, conversation, ...data.metrics.map((_, column) => scoreCell(turn, column)));
    row.addEventListener("click", (event) => {
      if (!open.contains(event.target) && String(getSelection())) return;
      const next = row.nextSibling;
      const isOpen = next && next.classList && next.classList.contains("detail");
      if (isOpen) next.remove(); else row.after(detailRow(turn));
      open.setAttribute("aria-expanded", String(!isOpen));
    });
    return row;
  }
  function lines(title, texts, tag) {
    const list = make(tag);
    for (const text of texts) list.append(said("li", "", text));
    return texts.length ? [make("h4", "", title), list] : [];
  }
  function detailRow(turn) {
    const row = make("tr", "detail"), cell = make("td"), inside = make("div", "inside");
    cell.colSpan = 2 + data.metrics.length;
    const left = make("div"), right = make("div");
    left.append(make("h4", "", "Conversation"));
    for (const text of data.texts[turn.c]) left.append(said("p", "line", text));
    const answer = said("p", "line answer");
    answer.append(make("b", "", data.systems[turn.s]), document.createTextNode(turn.r));
    left.append(answer);
    if (turn.h) left.append(make("h4", "", "How surprising each word is"), ...turn.h.flatMap(heat));
    if (state.context === null && answers.get(turn.c) > 1 && data.texts[turn.c].length) {
      const same = make("button", "", `All ${answers.get(turn.c)} answers to this context`);
      same.type = "button";
      same.addEventListener("click", () => { state.context = turn.c; refresh(); });
      left.append(same);
    }
    left.append(...lines("References", data.texts[turn.ref], "ul"), ...lines("Facts", data.texts[turn.f], "ul"));
    right.append(make("h4", "", "Scores"), scoresTable(turn));
    if (turn.p.some((given) => given.length)) {
      right.append(make("h4", "", turn.whole ? "People’s ratings of the whole dialogue" : "People’s ratings"), ratingsTable(turn));
    }
    right.append(make("h4", "", "Source"), make("p", "note", turn.d ? `${turn.at}; dialogue ${turn.d}` : turn.at));
    inside.append(left, right);
    cell.append(inside);
    row.append(cell);
    return row;
  }
  /* The response as metrics that judge tokens saw it: the darker a word, the more surprising. */
  function heat([columns, pieces, most]) {
    const steps = data.metrics[columns[0]].steps;
    const text = said("p", "line heat");
    for (const piece of pieces) {
      if (typeof piece === "string") { text.append(piece); continue; }
      const [word, cost] = piece;
      const span = make("span", `h${steps.filter((step) => cost >= step).length}`, word);
      span.title = `${show(cost, 2)} nats`;
      text.append(span);
    }
    const by = make("p", "legend", `${columns.map((column) => data.metrics[column].key).join(", ")}, in nats:`);
    steps.forEach((step, place) => by.append(" ", make("span", `h${place + 1}`, `from ${show(step, step >= 1 ? 1 : 2)}`)));
    const named = make("p", "surprising");
    named.append(make("span", "tag", "Most surprising"), ` ${most}`);
    return [by, text, named];
  }
  function scoresTable(turn) {
    const scores = make("table");
    data.metrics.forEach((metric, column) => {
      const row = scores.insertRow();
      const name = make("th", "", metric.key);
      name.scope = "row";
      const note = Object.hasOwn(turn.n, metric.key) ? turn.n[metric.key] : "";
      row.append(name, make("td", "num", show(turn.x[column], metric.places)), make("td", "why", note));
    });
    return scores;
  }
  function ratingsTable(turn) {
    const ratings = make("table");
    data.qualities.forEach((quality, place) => {
      const given = turn.p[place].filter((rating) => rating !== null);
      if (!turn.p[place].length) return;
      const row = ratings.insertRow();
      const name = make("th", "", quality);
      name.scope = "row";
      const mean = given.length ? given.reduce((sum, rating) => sum + rating, 0) / given.length : null;
      const each = turn.p[place].map((rating, rater) =>
        `${turn.who[rater] ? turn.who[rater] + " " : ""}${rating === null ? "–" : rating}`);
      row.append(name, make("td", "num", show(mean, 2)), make("td", "note", each.join(", ")));
    });
    return ratings;
  }
  function refresh({ keepPage = false, printing = false } = {}) {
    const found = matching();
    const size = printing ? MOST_PRINTED : PAGE_SIZE;
    const pages = Math.max(1, Math.ceil(found.length / size));
    state.page = keepPage ? Math.min(state.page, pages - 1) : 0;
    const start = printing ? 0 : state.page * size;
    const shown = found.slice(start, start + size);
    body.replaceChildren(...shown.map(turnRow));
    const whole = found.length.toLocaleString("en");
    byId("count").textContent = found.length
      ? `Turns ${(start + 1).toLocaleString("en")} to ${(start + shown.length).toLocaleString("en")} of ${whole}`
      : "No turn matches.";
    byId("page").textContent = `Page ${state.page + 1} of ${pages}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page >= pages - 1;
    byId("one-context").hidden = state.context === null;
    byId("by-metric").value = state.sort === null ? "" : String(state.sort);
    byId("direction").textContent = state.descending ? "high to low" : "low to high";
    byId("direction").setAttribute("aria-pressed", String(state.descending));
    byId("direction").disabled = state.sort === null;
    const head = table.tHead;
    markSorted(head, state.sort === null ? null : head.rows[0].cells[2 + state.sort], state.descending);
    [...head.rows[0].cells].forEach((cell, place) => cell.classList.toggle("sorted", place - 2 === state.sort));
  }
  function setSort(column, descending) {
    state.sort = column;
    state.descending = descending;
    refresh();
  }
  function buildTable() {
    const head = table.tHead.insertRow();
    for (const name of ["System", "Conversation"]) {
      const cell = make("th", name === "System" ? "who" : "conversation", name);
      cell.scope = "col";
      head.append(cell);
    }
    data.metrics.forEach((metric, column) => {
      const cell = make("th", "score num"), button = make("button", "", metric.key);
      cell.scope = "col";
      button.type = "button";
      button.addEventListener("click", () => setSort(column, state.sort === column ? !state.descending : true));
      cell.append(button);
      head.append(cell);
      byId("by-metric").append(new Option(metric.key, String(column)));
    });
    data.systems.forEach((name, place) => byId("by-system").append(new Option(name, String(place))));
    byId("noted").parentElement.hidden = !data.turns.some((turn) => Object.keys(turn.n).length);
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    let waiting;
    byId("search").addEventListener("input", (event) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { state.search = event.target.value; refresh(); }, 120);
    });
    byId("by-system").addEventListener("change", (event) => { state.system = event.target.value; refresh(); });
    byId("by-metric").addEventListener("change", (event) => {
      setSort(event.target.value === "" ? null : Number(event.target.value), state.descending);
    });
    byId("direction").addEventListener("click", () => setSort(state.sort, !state.descending));
    byId("noted").addEventListener("change", (event) => { state.noted = event.target.checked; refresh(); });
    byId("one-context").querySelector("button").addEventListener("click", () => { state.context = null; refresh(); });
    const turnPage = (step) => {
      state.page += step;
      refresh({ keepPage: true });
      byId("turns").scrollIntoView();
    };
    byId("previous").addEventListener("click", () => turnPage(-1));
    byId("next").addEventListener("click", () => turnPage(1));
    refresh();
  }
  buildTable();

  // --- charts: as many panels side by side as fit --------------------------------------------------------
  const GAP = 26, EDGE = 4;
  function reflow(svg, width) {
    const cells = [...svg.querySelectorAll("g.cell > g")];
    if (!cells.length || !width) return;
    svg.classList.add("panels");
    const boxes = cells.map((cell) => cell.getBBox());
    const left = Math.max(...boxes.map((box) => -box.x)), top = Math.max(...boxes.map((box) => -box.y));
    const wide = left + Math.max(...boxes.map((box) => box.x + box.width));
    const high = top + Math.max(...boxes.map((box) => box.y + box.height));
    const columns = Math.max(1, Math.min(cells.length, Math.floor((width + GAP) / (wide + GAP))));
    const across = Math.min((width - wide - 2 * EDGE) / Math.max(1, columns - 1), (wide + GAP) * 1.3);
    if (svg.dataset.base === undefined) {
      svg.dataset.base = cells[0].transform.baseVal.consolidate().matrix.f;
    }
    cells.forEach((cell, place) => {
      const x = left + (place % columns) * across;
      const y = Number(svg.dataset.base) + Math.floor(place / columns) * (high + GAP);
      cell.setAttribute("transform", `translate(${x},${y})`);
    });
    const box = svg.getBBox();
    const size = [box.x - EDGE, box.y - EDGE, box.width + 2 * EDGE, box.height + 2 * EDGE];
    svg.setAttribute("viewBox", size.join(" "));
    svg.setAttribute("width", size[2]);
    svg.setAttribute("height", size[3]);
  }
  const inner = (plot) => {
    const style = getComputedStyle(plot);
    return plot.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  };
  const plots = [...document.querySelectorAll(".plot")];
  const reflowAll = (width) => plots.forEach((plot) => reflow(plot.querySelector("svg"), width || inner(plot)));
  let lastWidth = 0;
  new ResizeObserver(() => {
    if (root.clientWidth === lastWidth) return;
    lastWidth = root.clientWidth;
    reflowAll();
  }).observe(root);
  addEventListener("beforeprint", () => { reflowAll(1060); refresh({ printing: true }); });
  addEventListener("afterprint", () => { reflowAll(); refresh(); });

  // --- charts: what a mark says --------------------------------------------------------------------------
  const tip = byId("tip");
  function point(event) {
    const mark = event.target.closest && event.target.closest(".plot svg [aria-label]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("aria-label");
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 18;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${below + box.height > innerHeight ? event.clientY - box.height - 12 : below}px`;
  }
  addEventListener("pointermove", point);
  addEventListener("pointerdown", point);

  // --- charts: as files ----------------------------------------------------------------------------------
  function standalone(svg) {
    const copy = svg.cloneNode(true);
    const originals = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, place) => {
      for (const name of ["fill", "stroke"]) {
        const value = element.getAttribute(name);
        if (value && value.startsWith("var(")) element.setAttribute(name, getComputedStyle(originals[place])[name]);
      }
    });
    const [x, y, width, height] = svg.getAttribute("viewBox").split(/[ ,]+/);
    const ground = document.createElementNS(SVG, "rect");
    Object.entries({ x, y, width, height, fill: getComputedStyle(root).getPropertyValue("--surface").trim() })
      .forEach(([name, value]) => ground.setAttribute(name, value));
    copy.prepend(ground);
    copy.setAttribute("font-family", "system-ui, sans-serif");
    return { text: new XMLSerializer().serializeToString(copy), width: Number(width), height: Number(height) };
  }
  function save(blob, name) {
    const link = make("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const figure = button.closest("figure");
    const name = figure.id.replace("chart-", "");
    const { text, width, height } = standalone(figure.querySelector("svg"));
    if (button.dataset.save === "svg") {
      save(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
      return;
    }
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = make("canvas");
    canvas.width = width * 2;
    canvas.height = height * 2;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png");
  });
})();
