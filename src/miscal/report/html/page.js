"use strict";
// Sorting, searching, filtering, tooltips, findings seen closely and data behind figures. Everything is readable without it.
(() => {
  const root = document.documentElement, tooltip = document.getElementById("tooltip");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  root.classList.add("script");
  const element = (name, text, parent, class_) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    if (class_) made.className = class_;
    if (name === "button") made.type = "button";
    return made;
  };

  // Tooltips: titles become our own, so that the browser's do not show as well.
  for (const svg of all("svg.figure")) {
    all("title", svg).forEach((title) => {
      const mark = title.parentNode;
      if (mark !== svg) { mark.tip = title.textContent; }
      title.remove();
    });
    const marks = all(".mark", svg).filter((mark) => mark.tip);
    let here = -1;
    const leave = () => { if (here >= 0) marks[here].classList.remove("here"); here = -1; tooltip.hidden = true; };
    const visit = (index) => {
      if (index === here) return;
      leave();
      here = index;
      const mark = marks[index], box = mark.getBoundingClientRect();
      mark.classList.add("here");
      tooltip.textContent = mark.tip;
      tooltip.hidden = false;
      const size = tooltip.getBoundingClientRect();
      const left = Math.min(Math.max(box.left + box.width / 2 - size.width / 2, 8), root.clientWidth - size.width - 8);
      const above = box.top - size.height - 8;
      tooltip.style.transform = `translate(${left}px, ${above > 4 ? above : box.bottom + 8}px)`;
    };
    const nearest = (x, y) => {
      let best = -1, least = 20;
      marks.forEach((mark, index) => {
        const box = mark.getBoundingClientRect();
        const away = Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
        if (away < least || (away === least && mark.matches(".point"))) { least = away; best = index; }
      });
      return best;
    };
    svg.addEventListener("pointermove", (event) => {
      const index = nearest(event.clientX, event.clientY);
      if (index < 0) leave(); else visit(index);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") leave();
      if (!step || !marks.length) return;
      event.preventDefault();
      visit(here < 0 ? (step > 0 ? 0 : marks.length - 1) : (here + step + marks.length) % marks.length);
    });
  }
  addEventListener("scroll", () => { tooltip.hidden = true; }, { passive: true });

  // Data behind a figure.
  const dataOf = (tools) => JSON.parse(tools.querySelector("script").textContent);
  const rowsOf = (data) => {
    const columns = Object.values(data.columns), longest = Math.max(0, ...columns.map((column) => column.length));
    return Array.from({ length: longest }, (_, i) => columns.map((column) => column[i] ?? ""));
  };
  // A cell that a spreadsheet would take for a formula is written as text.
  const cell = (value) => {
    const text = typeof value === "string" && /^[\s]*[=+\-@\t\r|%]/.test(value) ? "'" + value : String(value);
    return /[",\r\n;]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const save = (name, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
    link.download = (name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "data") + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const shown = (value) => (typeof value === "number" ? String(+value.toPrecision(4)) : value);

  // Sorting: numbers by their key, words by the alphabet, nothing last.
  const sortable = (table) => {
    const heads = all("thead th", table), body = table.tBodies[0];
    heads.forEach((head, place) => {
      const button = element("button", head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("number");
        const first = numeric ? "descending" : "ascending", before = head.getAttribute("aria-sort");
        const order = before === "none" ? first : before === "ascending" ? "descending" : "ascending";
        heads.forEach((other) => { if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const key = (row) => (numeric ? row.cells[place].dataset.key : row.cells[place].textContent.trim()) || null;
        const rows = [...body.rows].map((row) => [key(row), row]);
        rows.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1
          : sign * (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true }))));
        rows.forEach(([, row]) => row.classList.remove("folded", "tucked"));
        body.append(...rows.map(([, row]) => row));
      });
    });
  };
  all("table.sortable").forEach(sortable);

  // Searching: rows of the table, and the figures that belong to it.
  const searchable = (box, table, found) => {
    const figures = table.id
      ? all(`[data-searched="${table.id}"] > figure`).map((figure) => [figure.dataset.search || "", figure]) : [];
    const rows = [...table.tBodies[0].rows].map((row) => [row.textContent.toLowerCase(), row]);
    box.addEventListener("input", () => {
      const wanted = box.value.trim().toLowerCase();
      let many = 0;
      for (const [text, row] of rows) {
        row.hidden = !text.includes(wanted);
        if (wanted) row.classList.remove("folded", "tucked");
        many += row.hidden ? 0 : 1;
      }
      for (const [text, figure] of figures) {
        figure.hidden = !text.includes(wanted);
        if (wanted) figure.classList.remove("folded", "tucked");
      }
      found.textContent = wanted ? `${many} of ${rows.length}` : "";
    });
  };
  const searched = (table, line, said, label) => {
    line.className = "search";
    const box = element("input", undefined, line), found = element("span", undefined, line, "found");
    box.type = "search";
    box.placeholder = said;
    box.autocomplete = "off";
    box.spellcheck = false;
    box.setAttribute("aria-label", label);
    found.setAttribute("role", "status");
    searchable(box, table, found);
  };
  for (const table of all("table[data-box]")) {
    const line = document.createElement("p");
    table.closest(".scroller").before(line);
    searched(table, line, table.dataset.box, table.dataset.box);
  }

  // The data of a figure as a table: every level, to sort and to search.
  const build = (data, sheet) => {
    const keys = Object.keys(data.columns), rows = rowsOf(data);
    const numeric = keys.map((key) => data.columns[key].every((value) => value === null || typeof value === "number"));
    const line = rows.length > 12 ? element("p", undefined, sheet) : null;
    const table = element("table", undefined, sheet);
    const head = element("tr", undefined, element("thead", undefined, table)), body = element("tbody", undefined, table);
    keys.forEach((key, i) => {
      const cell = element("th", undefined, head);
      cell.scope = "col";
      cell.setAttribute("aria-sort", "none");
      if (numeric[i]) cell.className = "number";
      cell.textContent = key.replaceAll("_", " ");
    });
    for (const row of rows) {
      const made = element("tr", undefined, body);
      row.forEach((value, i) => {
        const cell = element("td", shown(value), made);
        if (numeric[i]) { cell.className = "number"; if (value !== "") cell.dataset.key = value; }
      });
    }
    sortable(table);
    if (line) searched(table, line, "Search", `Search the data of ${data.title}`);
    if (data.cut) element("p", `The first ${body.rows.length} of ${data.cut} rows; the JSON has all of them.`, sheet);
  };
  for (const tools of all(".tools")) {
    const drawn = tools.closest("figure");
    if (drawn) {
      const button = element("button", "Data as table", tools, "show"), sheet = element("div", undefined, undefined, "sheet");
      button.setAttribute("aria-expanded", "false");
      sheet.hidden = true;
      button.addEventListener("click", () => {
        if (!sheet.firstChild) build(dataOf(tools), sheet);
        sheet.hidden = !sheet.hidden;
        button.setAttribute("aria-expanded", String(!sheet.hidden));
      });
      element("button", "Data as CSV", tools, "csv");
      tools.append(sheet);
    } else {
      element("button", "All findings as CSV", tools, "csv");
    }
    tools.querySelector(".csv").addEventListener("click", () => {
      const data = dataOf(tools), lines = [Object.keys(data.columns), ...rowsOf(data)];
      save(data.title, lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n");
    });
  }

  // A phone shows the first few of a long list, a wide screen many; the style sheet hides the others there.
  const unfold = (child) => child.classList.remove("folded", "tucked");
  for (const list of all("[data-fold]")) {
    const few = +list.dataset.fold, many = +(list.dataset.many || Infinity), rest = [...list.children].slice(few);
    if (rest.length < 2) continue;
    rest.forEach((child, i) => child.classList.add("folded", ...(few + i >= many ? ["tucked"] : [])));
    const button = element("button", `Show all ${list.children.length}`);
    button.className = list.children.length > many ? "unfold always" : "unfold";
    button.addEventListener("click", () => { rest.forEach(unfold); button.remove(); });
    (list.closest("table") || list).after(button);
  }
  for (const link of all('a[href^="#"]')) {
    link.addEventListener("click", () => {
      const target = document.getElementById(link.hash.slice(1));
      if (target) unfold(target);
    });
  }

  // A finding looked at closely: a click anywhere on its card, or Enter on its line; Escape closes it.
  for (const card of all(".card")) {
    const look = card.querySelector(":scope > .look");
    if (!look) continue;
    card.classList.add("opens");
    card.addEventListener("click", (event) => {
      if (event.target.closest("a, button, summary, details") || String(getSelection())) return;
      look.open = !look.open;
    });
  }
  for (const look of all(".look")) {
    look.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !look.open) return;
      event.stopPropagation();
      look.open = false;
      look.querySelector("summary").focus();
    });
  }
  for (const line of all(".clause p")) {
    const button = element("button", "Copy", line, "copy");
    button.addEventListener("click", () => {
      const code = line.parentNode.querySelector("code");
      getSelection().selectAllChildren(code);
      const done = () => { button.textContent = "Copied"; };
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, () => {});
    });
  }

  // Filtering findings by column, form and size: a card stays while it, or a place listed on it, is asked for.
  const places = all("#findings [data-form]"), cards = document.querySelector("#findings .cards");
  if (places.length > 1) {
    const bar = element("div", undefined, undefined, "filters");
    cards.before(bar);
    const about = new Map(places.map((place) => [place, new Set(JSON.parse(place.dataset.columns))]));
    const choice = (said, every, options) => {
      const select = element("select", undefined, element("label", `${said} `, bar));
      element("option", every, select).value = "";
      for (const option of [...new Set(options)].sort((a, b) => a.localeCompare(b))) {
        element("option", option.length > 60 ? `${option.slice(0, 59)}…` : option, select).value = option;
      }
      return select;
    };
    const column = choice("Column", "all columns", places.flatMap((place) => [...about.get(place)]));
    const form = choice("Form", "all forms", places.map((place) => place.dataset.form));
    const size = element("input", undefined, element("label", `${cards.dataset.least} `, bar));
    Object.assign(size, { type: "number", min: "0", step: "any", inputMode: "numeric", placeholder: "any" });
    size.setAttribute("aria-label", cards.dataset.least);
    const clear = element("button", "Show all", bar), found = element("span", undefined, bar, "found");
    clear.hidden = true;
    found.setAttribute("role", "status");
    const filter = () => {
      const asked = Boolean(column.value || form.value || size.value), hits = new Set(places.filter((place) =>
        (!column.value || about.get(place).has(column.value)) && (!form.value || place.dataset.form === form.value)
        && +place.dataset.off >= (+size.value || 0)));
      for (const place of places) {
        place.hidden = !hits.has(place) && !all("[data-form]", place).some((other) => hits.has(other));
        if (asked && !place.hidden) unfold(place);
      }
      // Lists of places: away while none of them is asked for, open where the card is there for one of them only.
      for (const list of all("#findings details:not(.look)").filter((list) => list.querySelector("[data-form]"))) {
        list.hidden = !all("[data-form]", list).some((other) => hits.has(other));
        if (asked && !list.hidden && !hits.has(list.closest(".card"))) list.open = true;
      }
      clear.hidden = !asked;
      found.textContent = asked ? `${hits.size} of ${places.length} segments` : "";
    };
    bar.addEventListener("input", filter);
    clear.addEventListener("click", () => { column.value = form.value = size.value = ""; filter(); column.focus(); });
  }
})();
