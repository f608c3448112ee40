"use strict";
// The page of `mortise board`. What comes from the store is put into the page as text alone: there is no markup
// made from data, and the page's policy would not run any.
(() => {
  const byId = (id) => document.getElementById(id);
  const state = { data: null, start: null, page: null, token: null, open: new Set(), levels: new Map(), detail: null,
    history: null, at: 0 };

  // ---- Text ------------------------------------------------------------------------------------

  const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
  // What cannot be seen, or turns the line round, becomes visible; the server has done so, too.
  const seen = (text) => String(text ?? "").slice(0, 2000)
    .replace(unseen, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const grouped = (n) => Number(n ?? 0).toLocaleString("en");
  const counted = (n, one, many) => `${grouped(n)} ${n === 1 ? one : many}`;

  function span(ms) {
    if (!Number.isFinite(ms)) return "";
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
  }
  // The store's clock, as far as it is known here.
  const now = () => (state.data ? state.data.now + (performance.now() - state.at) : Date.now());
  const ago = (ms) => (ms > 0 ? `${span(now() - ms)} ago` : "");
  const clock = (ms) => new Date(ms).toLocaleTimeString();

  // ---- Elements --------------------------------------------------------------------------------

  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name === "on") made.addEventListener("click", value);
      else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== undefined && child !== null));
    return made;
  }
  const name = (text, kind) => el("bdi", { class: kind }, seen(text));
  function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  // Children of `parent`, one for each item: made once, changed afterwards, so that the focus stays where it is.
  function sync(parent, items, keyOf, make, change) {
    const known = parent.kept ?? (parent.kept = new Map());
    const wanted = new Set();
    let place = parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      if (wanted.has(key)) continue;
      wanted.add(key);
      let node = known.get(key);
      if (!node) {
        node = make(item);
        known.set(key, node);
      }
      change?.(node, item);
      if (node === place) place = place.nextElementSibling;
      else parent.insertBefore(node, place);
    }
    for (const [key, node] of known) {
      if (wanted.has(key)) continue;
      node.remove();
      known.delete(key);
    }
  }
  // Puts what was made anew in place of what is there, unless it says the same.
  function fill(parent, ...children) {
    const made = children.filter((child) => child !== undefined && child !== null);
    const says = made.map((child) => (child instanceof Node ? child.outerHTML ?? child.textContent : child)).join("\n");
    if (parent.says === says) return;
    parent.says = says;
    parent.replaceChildren(...made);
  }

  // ---- Asking the server -----------------------------------------------------------------------

  async function ask(path, parameters) {
    const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, { cache: "no-store" });
    const given = await answer.json();
    if (!answer.ok) throw new Error(given.error?.message ?? `HTTP ${answer.status}`);
    return given;
  }
  async function order(body) {
    const answer = await fetch("order.json", {
      method: "POST", body: JSON.stringify(body), cache: "no-store",
      headers: { "Content-Type": "application/json", "X-Mortise-Token": state.token ?? "" },
    });
    const given = await answer.json();
    if (answer.status === 403) state.token = null;
    if (!answer.ok) throw new Error(given.error?.message ?? `HTTP ${answer.status}`);
    return given;
  }

  // ---- Orders, each asked twice ----------------------------------------------------------------

  function choose(dialog) {
    return new Promise((resolve) => {
      dialog.returnValue = "";
      dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
      dialog.showModal();
    });
  }
  async function needToken() {
    if (state.token) return true;
    byId("token").value = "";
    const answer = await choose(byId("token-box"));
    state.token = answer === "ok" ? byId("token").value.trim() : null;
    byId("token").value = "";
    return Boolean(state.token);
  }
  async function tell(title, lines, isQuestion) {
    setText(byId("ask-title"), title);
    fill(byId("ask-body"), ...lines.map((line) => el("p", null, seen(line))));
    byId("ask-yes").hidden = !isQuestion;
    setText(byId("ask-no"), isQuestion ? "No, leave it" : "Close");
    return await choose(byId("ask")) === "yes";
  }
  async function give(title, what) {
    if (!await needToken()) return;
    try {
      const asked = await order(what);
      if (!await tell(title, asked.ask, true)) return;
      const deed = await order({ yes: asked.yes });
      setText(byId("state"), `${title}: ${deed.state}${deed.text ? `, ${seen(deed.text)}` : ""}`);
    } catch (why) {
      await tell(title, [why.message], false);
    }
  }
  const verbTitles = { pause: "Pause", resume: "Resume", throttle: "Throttle", rollback: "Roll back" };
  function limitsForm(job) {
    const inputs = [["rate", "Documents a second"], ["batch", "Documents a batch"],
      ["concurrency", "Batches at once"]].map(([id, label]) => {
      const input = el("input", { type: "number", min: "0", max: "2147483647", "aria-label": label, size: "8" });
      return { id, input, row: el("label", null, `${label} (0: no limit) `, input) };
    });
    const send = el("button", { type: "button", on: () => {
      const limits = {};
      for (const { id, input } of inputs) if (input.value !== "") limits[id] = Math.trunc(Number(input.value));
      give(`Throttle ${seen(job)}`, { verb: "throttle", job, limits });
    } }, "Throttle");
    return el("details", null, el("summary", null, "Throttle"), ...inputs.map((each) => each.row), send);
  }
  function jobButtons(job) {
    if (!state.data?.control || !job.verbs?.length) return null;
    const box = el("div", { class: "row" });
    for (const verb of job.verbs) {
      if (verb === "throttle") box.append(limitsForm(job.job));
      else box.append(el("button", { type: "button", class: verb === "rollback" ? "danger" : undefined,
        on: () => give(`${verbTitles[verb]} ${seen(job.job)}`, { verb, job: job.job }) }, verbTitles[verb]));
    }
    return box;
  }

  // ---- Plots -----------------------------------------------------------------------------------

  function svg(tag, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }
  const hour = 3600000;
  // `points`: [[at, value], ...]; `unit` a function that says a value.
  function plot(title, points, unit) {
    const last = points.at(-1), most = Math.max(0, ...points.map((point) => point[1]));
    const from = Math.min(points[0]?.[0] ?? 0, (last?.[0] ?? 0) - 60000), until = last?.[0] ?? 1;
    const says = last ? `${title}: now ${unit(last[1])}, at most ${unit(most)}, in the last ${span(until - from)}`
      : `${title}: nothing yet`;
    const image = svg("svg", { class: "plot", viewBox: "0 0 600 100", preserveAspectRatio: "none", role: "img",
      "aria-label": says });
    const line = points.map(([at, value]) =>
      `${((at - from) / Math.max(1, until - from) * 600).toFixed(1)},${(96 - value / Math.max(1, most) * 90).toFixed(1)}`);
    if (line.length > 1) {
      const first = line[0].split(",")[0];
      image.append(svg("polygon", { points: `${first},100 ${line.join(" ")} 600,100` }),
        svg("polyline", { points: line.join(" ") }));
    }
    const every = Math.max(1, Math.ceil(points.length / 24));
    const rows = points.filter((_, i) => (points.length - 1 - i) % every === 0).reverse()
      .map(([at, value]) => el("tr", null, el("td", null, clock(at)), el("td", null, unit(value))));
    return el("figure", null, el("figcaption", null, says), image,
      el("details", null, el("summary", null, `${title}, as a table`), el("div", { class: "scroll", tabindex: "0",
        role: "region", "aria-label": `${title}, as a table` },
      el("table", null, el("thead", null, el("tr", null, el("th", { scope: "col" }, "At"),
        el("th", { scope: "col" }, title))), el("tbody", null, ...rows)))));
  }
  function plotsOf(series, wanted) {
    return wanted.map(([key, title, unit]) => {
      const at = series.names.indexOf(key);
      return plot(title, series.points.map((point) => [point[0], point[at]]), unit);
    });
  }
  // Plots made anew keep their tables open.
  function showPlots(box, figures) {
    const open = [...box.querySelectorAll("details")].map((each) => each.open);
    if (box.contains(document.activeElement)) return;
    box.replaceChildren(...figures);
    box.querySelectorAll("details").forEach((each, i) => { each.open = open[i] ?? false; });
  }
  const ms = (value) => `${grouped(value)} ms`;
  const historyPlots = [["locks", "Locks", grouped], ["sessions", "Sessions", grouped], ["waiting", "Waiting", grouped],
    ["running", "Jobs that run", grouped], ["standing", "Jobs that stand", grouped], ["took_ms", "Reading the store", ms]];
  const jobPlots = [["rate", "Documents/s", grouped], ["left", "Documents left", grouped],
    ["conflicts", "Conflicts", grouped], ["rejected", "Rejected", grouped], ["batch_ms", "Time of a batch", ms]];

  async function refreshHistory() {
    if (document.hidden) return;
    try {
      state.history = await ask("history.json", {});
      showPlots(byId("history"), plotsOf(state.history, historyPlots));
    } catch { /* the next one may */ }
  }

  // ---- Locks -----------------------------------------------------------------------------------

  const lockLink = (row, text) => (row.path === undefined ? name(text ?? row.shown, "path")
    : el("button", { type: "button", class: "link path", on: () => showLock(row.namespace, row.path) },
      name(text ?? row.shown)));
  const sessionLink = (row) => (row.session === "damaged" || !row.session ? name(row.who || "unknown")
    : el("button", { type: "button", class: "link", on: () => showSession(row.namespace, row.session) },
      name(row.who || row.session.slice(0, 8))));
  function rowText(row) {
    return el("span", { class: row.dead ? "warn" : undefined }, ` ${row.mode} held by `, sessionLink(row),
      row.since > 0 ? `, for ${span(now() - row.since)}` : "", row.dead ? `; ${seen(row.verdict)}` : "", row.job ? `, for job ${seen(row.job)}` : "");
  }
  const keyOfLevel = (namespace, path) => `${namespace}:${path}`;

  function treeNode(namespace, path, text) {
    const key = keyOfLevel(namespace, path);
    const list = el("ul", null);
    const twist = el("button", { type: "button", class: "twist", "aria-expanded": "false",
      "aria-label": `below ${seen(text)}`, on: () => toggle(key, namespace, path) }, "+");
    const node = el("li", null, twist, lockLink({ namespace, path, shown: text }), el("span", { class: "count" }), list);
    node.parts = { twist, list, count: node.querySelector(".count") };
    return node;
  }
  function changeNode(node, namespace, path, n, waits) {
    const { twist, list, count } = node.parts;
    setText(count, ` ${counted(n, "hold", "holds")}${waits ? `, ${grouped(waits)} waiting` : ""}`);
    count.classList.toggle("warn", waits > 0);
    const key = keyOfLevel(namespace, path), isOpen = state.open.has(key), level = state.levels.get(key);
    twist.setAttribute("aria-expanded", String(isOpen));
    setText(twist, isOpen ? "−" : "+");
    if (!isOpen || !level) sync(list, [], String, null);
    else showLevel(list, level);
  }
  function showLevel(list, level) {
    const items = [
      ...level.rows.map((row) => ({ kind: "row", key: `row ${row.hold} ${row.mode}`, row })),
      ...level.waiters.map((row) => ({ kind: "waiter", key: `waiter ${row.session} ${row.mode}`, row })),
      ...level.children.map((child) => ({ kind: child.row ? "leaf" : child.path === undefined ? "long" : "child",
        key: `${child.row ? "leaf" : "child"} ${child.path ?? child.name}`, child })),
    ];
    if (level.more > 0) items.push({ kind: "more", key: "more" });
    sync(list, items, (item) => item.key, (item) => {
      if (item.kind === "child") return treeNode(level.namespace, item.child.path, item.child.name);
      return el("li");
    }, (node, item) => {
      if (item.kind === "child") changeNode(node, level.namespace, item.child.path, item.child.n, item.child.waits);
      else if (item.kind === "row") fill(node, "here:", rowText(item.row));
      else if (item.kind === "waiter") fill(node, el("span", { class: "warn" }, `waits for ${item.row.mode}: `,
        sessionLink(item.row)));
      else if (item.kind === "leaf") fill(node, lockLink({ ...item.child.row, path: item.child.row.path },
        item.child.row.shown.endsWith(item.child.name) ? item.child.name : item.child.row.shown), rowText(item.child.row));
      else if (item.kind === "long") fill(node, name(item.child.name, "path"), ` ${counted(item.child.n, "hold", "holds")}`);
      else fill(node, el("span", { class: "count" }, `and ${counted(level.more, "path", "paths")} more: search for them`));
    });
  }
  async function toggle(key, namespace, path) {
    if (state.open.has(key)) state.open.delete(key);
    else state.open.add(key);
    if (state.open.has(key)) await readLevel(key, namespace, path);
    showTree();
  }
  async function readLevel(key, namespace, path) {
    try {
      state.levels.set(key, await ask("locks.json", { namespace, path }));
    } catch {
      state.levels.delete(key);
    }
  }
  const openMost = 24;
  let readingLevels = false;
  async function refreshLevels() {
    if (readingLevels || document.hidden) return;
    readingLevels = true;
    for (const key of [...state.open].slice(0, openMost)) {
      const at = key.indexOf(":");
      await readLevel(key, key.slice(0, at), key.slice(at + 1));
    }
    readingLevels = false;
    showTree();
  }
  function showTree() {
    const namespaces = state.data?.namespaces ?? [];
    sync(byId("tree"), namespaces, (each) => each.namespace, (each) => treeNode(each.namespace, "/",
      each.namespace === state.data.namespace ? "/" : `${each.namespace}:/`),
    (node, each) => changeNode(node, each.namespace, "/", each.n, each.waits));
    setText(byId("tree-note"), namespaces.length === 0 ? "Nobody holds a lock." : "");
  }

  // ---- What is in the way ----------------------------------------------------------------------

  function waitItem(wait) {
    const first = wait.blockers[0];
    const parts = [sessionLink(wait), " waits for ", lockLink(wait), ` (${wait.mode}), for at least ${span(now() - wait.seen)}`];
    if (first) {
      parts.push("; in the way: ", sessionLink(first), `, which ${first.waits ? "waits for" : "has"} `, lockLink(first),
        ` (${first.mode})`);
      const more = wait.blockers.length - 1 + wait.more;
      if (more > 0) parts.push(`, and ${grouped(more)} more`);
    }
    return el("span", null, ...parts);
  }
  function showWaits(data) {
    sync(byId("circles"), data.circles ?? [], (circle) => JSON.stringify(circle), (circle) => el("div", { class: "circle" },
      el("strong", null, "A circle: each waits for the next, until the protocol ends one of them."),
      el("ol", null, ...circle.steps.map((step) => el("li", null, name(step.who), " waits for ", name(step.wants, "path"),
        ", which ", name(step.of), " keeps"))), circle.more > 0 ? `and ${circle.more} more` : null));
    sync(byId("waits"), data.waits ?? [], (wait) => `${wait.namespace} ${wait.session} ${wait.shown} ${wait.mode}`,
      () => el("li"), (node, wait) => fill(node, waitItem(wait)));
    setText(byId("waits-note"), (data.waits ?? []).length === 0 ? "Nobody waits."
      : data.waits_more > 0 ? `${grouped(data.waits_more)} more wait.` : "");
  }

  // ---- Sessions --------------------------------------------------------------------------------

  function sessionRow(session) {
    const bar = el("span");
    const cells = { who: el("td"), left: el("td", { "data-label": "Lease left" }), holds: el("td", { "data-label": "Holds" }),
      waits: el("td", { "data-label": "Waits" }), state: el("td", { "data-label": "State" }) };
    cells.who.append(sessionLink({ ...session, session: session.id }));
    const left = el("span");
    cells.left.append(left, el("span", { class: "bar", "aria-hidden": "true" }, bar));
    const row = el("tr", null, ...Object.values(cells));
    row.parts = { ...cells, bar, left };
    return row;
  }
  function changeSession(row, session) {
    row.session = session;
    row.read = performance.now();
    setText(row.parts.holds, grouped(session.holds));
    setText(row.parts.waits, grouped(session.waits));
    setText(row.parts.state, session.state === "live" && !session.dead ? "live" : seen(session.verdict));
    row.parts.state.classList.toggle("warn", Boolean(session.dead));
    tickLease(row);
  }
  function tickLease(row) {
    const { left_ms: left, lease_ms: lease } = row.session;
    const rest = left === undefined ? null : left - (performance.now() - row.read) - (state.late ?? 0);
    setText(row.parts.left, rest === null ? "none" : span(rest));
    row.parts.bar.style.width = rest === null || !lease ? "0" : `${Math.max(0, Math.min(100, rest / lease * 100)).toFixed(0)}%`;
  }
  function showSessions(data) {
    sync(byId("sessions"), data.sessions ?? [], (each) => `${each.namespace}:${each.id}`, sessionRow, changeSession);
    setText(byId("sessions-note"), data.sessions_more > 0
      ? `${grouped(data.sessions_more)} more sessions: search for them.` : (data.sessions ?? []).length ? "" : "There is none.");
  }

  // ---- Jobs ------------------------------------------------------------------------------------

  function jobState(job) {
    if (job.state === "damaged") return "damaged: its document is of no use";
    const words = [job.state];
    if (job.phase) words.push(job.phase);
    if (job.stands) words.push("stands half-done");
    if (job.unguarded) words.push("has lost its lock");
    if (job.waits) words.push(job.waits);
    if (job.reason) words.push(job.reason);
    return words.map(seen).join("; ");
  }
  function jobItem(job) {
    const bar = el("span");
    const parts = { state: el("span"), numbers: el("span", { class: "count" }), bar, buttons: el("div") };
    const item = el("li", null, el("div", { class: "row" }, el("button", { type: "button", class: "link",
      on: () => showJob(job.job) }, name(job.job)), parts.state), el("span", { class: "bar", role: "progressbar",
      "aria-label": `job ${seen(job.job)}`, "aria-valuemin": "0", "aria-valuemax": "100" }, bar), parts.numbers, parts.buttons);
    item.parts = parts;
    return item;
  }
  function jobNumbers(job) {
    if (!job.counts) return "";
    const words = [`${grouped(job.done)}${job.total ? ` of ${grouped(job.total)}` : ""} documents`];
    if (job.rate) words.push(`${grouped(job.rate)}/s`);
    if (job.seconds_left !== undefined) words.push(`${span(job.seconds_left * 1000)} left`);
    if (job.counts.conflicts) words.push(counted(job.counts.conflicts, "conflict", "conflicts"));
    if (job.counts.rejected) words.push(`${grouped(job.counts.rejected)} rejected`);
    words.push(`in ${seen(job.index)}`);
    return words.join(", ");
  }
  function changeJob(item, job) {
    setText(item.parts.state, jobState(job));
    item.parts.state.className = job.stands || job.state === "damaged" ? "bad" : job.alive ? "good" : "";
    setText(item.parts.numbers, jobNumbers(job));
    const percent = job.total ? Math.floor(job.done * 100 / job.total) : 0;
    item.parts.bar.style.width = `${percent}%`;
    item.parts.bar.parentElement.setAttribute("aria-valuenow", String(percent));
    const verbs = state.data.control ? (job.verbs ?? []).join(" ") : "";
    if (item.verbs !== verbs) {
      item.verbs = verbs;
      item.parts.buttons.replaceChildren(...[jobButtons(job)].filter(Boolean));
    }
  }
  function showJobs(data) {
    sync(byId("jobs"), data.jobs ?? [], (job) => job.job, jobItem, changeJob);
    setText(byId("jobs-note"), data.jobs_more > 0 ? `${grouped(data.jobs_more)} more.`
      : (data.jobs ?? []).length ? "" : "No job runs or stands half-done. What ends while this board runs is listed here.");
    const deeds = data.deeds ?? [];
    byId("deeds-box").hidden = deeds.length === 0;
    sync(byId("deeds"), deeds, (deed) => `${deed.at} ${deed.verb} ${deed.what}`, () => el("li"), (node, deed) =>
      fill(node, `${clock(deed.at)} ${seen(deed.verb)} ${seen(deed.what)}: ${deed.state}${deed.text ? `, ${seen(deed.text)}` : ""}`));
  }

  // ---- One of them -----------------------------------------------------------------------------

  function listOf(title, items, make, none) {
    if (items.length === 0) return none ? el("p", { class: "note" }, none) : null;
    return el("div", null, el("h3", null, title), el("ul", { class: "plain" }, ...items.map((item) => el("li", null, make(item)))));
  }
  async function showDetail(title, read, make) {
    const dialog = byId("detail"), body = byId("detail-body");
    setText(byId("detail-title"), seen(title));
    const detail = { read, make };
    state.detail = detail;
    body.says = null;
    body.replaceChildren(el("p", null, "reading"));
    if (!dialog.open) dialog.showModal();
    await refreshDetail(detail);
  }
  async function refreshDetail(detail) {
    const body = byId("detail-body");
    let parts;
    try {
      parts = detail.make(await detail.read());
    } catch (why) {
      parts = [el("p", { class: "bad" }, seen(why.message))];
    }
    const busy = body.contains(document.activeElement) && body.says !== null;
    if (state.detail === detail && !busy) showPlots(body, parts.filter(Boolean));
    if (state.detail === detail) body.says = "";
  }
  function eventText(event) {
    return el("span", null, `${clock(event.since)} to ${clock(event.at)}: `, name(event.who), ` ${event.what} it (${event.mode})`,
      event.what === "gave back" && event.began > 0 ? `, after ${span(event.at - event.began)} or less` : "");
  }
  function showLock(namespace, path) {
    showDetail(`${namespace === state.data.namespace ? "" : `${namespace}:`}${path}`,
      () => ask("lock.json", { namespace, path }), (lock) => [
        listOf("Who has it", lock.rows, rowText, "Nobody has a lock at this path itself."),
        listOf("Who waits for it", lock.waiters, (wait) => waitItem({ ...wait, more: 0 })),
        listOf("Held above it", lock.above, (row) => el("span", null, lockLink(row), rowText(row))),
        lock.children.length ? el("p", null, `${counted(lock.children.length + lock.more, "path", "paths")} below it.`) : null,
        listOf("Jobs that lock it", lock.jobs, (job) => el("span", null, name(job.job), ` ${jobState(job)}`)),
        listOf("What the board has seen of it", lock.events, eventText,
          `Nothing has changed here since the board looks, which is since ${clock(lock.watched_since)}.`),
      ]);
  }
  function showSession(namespace, id) {
    showDetail(id, () => ask("session.json", { namespace, id }), (session) => [
      el("p", null, name(session.who), `; ${seen(session.verdict)}`),
      el("p", null, `opened ${ago(session.opened)}; lease of ${span(session.lease_ms)}, holds ${grouped(session.holds)}, waits for ${grouped(session.waits)}`),
      state.data.control && !session.dead ? el("button", { type: "button", class: "danger",
        on: () => give(`End session ${seen(id.slice(0, 8))}`, { verb: "break", session: id, namespace }) }, "End it with all of its locks") : null,
      listOf("Waits for", session.waits_for, (wait) => el("span", null, lockLink(wait), ` (${wait.mode})`)),
      listOf("Waits for it", session.waited_for_by, (wait) => el("span", null, name(wait.who), " for ", lockLink(wait))),
      listOf("Holds", session.locks, (row) => el("span", null, lockLink(row), ` (${row.mode}), for ${span(now() - row.since)}`)),
    ]);
  }
  function showJob(id) {
    showDetail(id, () => ask("job.json", { id }), (job) => [
      el("p", null, jobState(job)), el("p", null, jobNumbers(job)),
      el("p", null, `locks ${seen(job.locks)}; begun ${ago(job.created)}, updated ${ago(job.updated)}`),
      job.owner ? el("p", null, "at work: ", name(job.owner)) : null,
      job.limits ? el("p", null, `slowed down: ${seen(job.limits)}`) : null,
      job.steered ? el("p", null, `told ${seen(job.steered.what)} by `, name(job.steered.by), ` ${ago(job.steered.at)}`) : null,
      jobButtons(job),
      job.history ? el("div", { class: "plots" }, ...plotsOf(job.history, jobPlots)) : null,
      listOf("Set aside first", job.aside ?? [], (each) => el("span", null, name(each.id), `: ${seen(each.type)}: ${seen(each.reason)}`)),
      listOf("What may be done", job.steps ?? [], (step) => el("span", null, el("code", null, seen(step.command)), ` ${seen(step.why)}`)),
    ]);
  }

  // ---- Searching -------------------------------------------------------------------------------

  async function search(q) {
    const box = byId("found");
    box.hidden = q === "";
    if (q === "") return;
    try {
      const found = await ask("search.json", { q });
      byId("found-list").replaceChildren(...[
        listOf("Jobs", found.jobs, (job) => el("button", { type: "button", class: "link", on: () => showJob(job.job) }, name(job.job))),
        listOf("Who waits", found.waiters, (wait) => el("span", null, sessionLink(wait), " for ", lockLink(wait))),
        listOf("Sessions", found.sessions, (session) => sessionLink({ ...session, session: session.id })),
        listOf(`Locks, ${grouped(found.locks.length)} of ${found.n >= 1000 ? "1,000 or more" : grouped(found.n)}`, found.locks,
          (row) => el("span", null, lockLink(row), rowText(row)), "No lock has this in its path."),
      ].filter(Boolean));
    } catch (why) {
      byId("found-list").replaceChildren(el("p", { class: "bad" }, seen(why.message)));
    }
    byId("h-found").scrollIntoView({ block: "nearest" });
  }

  // ---- All of it -------------------------------------------------------------------------------

  function begin(data) {
    const before = state.start;
    state.start = data.start;
    state.page ??= data.page;
    if (state.page !== data.page) {
      location.reload(); // another version of this page
      return;
    }
    state.token = null;
    state.levels.clear();
    if (before === null) state.open.add(keyOfLevel(data.namespace, "/"));
    setText(byId("url"), seen(data.url));
    setText(byId("namespace"), `namespace ${seen(data.namespace)}`);
    setText(byId("version"), `mortise ${seen(data.version)}`);
    byId("unlock").hidden = !data.control;
    byId("detail").close();
    refreshHistory();
    refreshLevels();
  }
  function sumTiles(data) {
    const sums = data.sums ?? {};
    const tiles = [["Locks", sums.locks], ["Sessions", sums.sessions], ["Waiting", sums.waiting, sums.waiting > 0],
      ["Jobs run", sums.running], ["Stand half-done", sums.standing, sums.standing > 0]];
    sync(byId("sums"), tiles, (tile) => tile[0], (tile) => el("div", null, el("dt", null, tile[0]), el("dd")), (node, tile) => {
      setText(node.lastElementChild, grouped(tile[1]));
      node.lastElementChild.classList.toggle("warn", Boolean(tile[2]));
    });
    byId("left-out").hidden = !sums.left_out;
    setText(byId("left-out"), sums.left_out ? `${grouped(sums.left_out)} locks are counted, and too many to be listed here.` : "");
  }
  function show(data) {
    state.data = data;
    state.at = performance.now();
    state.late = Math.max(0, data.now - (data.at ?? data.now));
    if (data.start !== state.start) begin(data);
    byId("failure").hidden = !data.failure;
    setText(byId("failure"), data.failure ? `The store cannot be read: ${seen(data.failure)}` : "");
    sumTiles(data);
    showWaits(data);
    showJobs(data);
    showSessions(data);
    showTree();
  }

  // ---- Following -------------------------------------------------------------------------------

  let source = null, again = 0;
  function follow() {
    clearTimeout(again);
    source?.close();
    source = new EventSource("events");
    source.addEventListener("look", (event) => {
      show(JSON.parse(event.data));
      setText(byId("state"), "live");
    });
    source.addEventListener("error", () => {
      setText(byId("state"), "the board does not answer; trying again");
      if (source.readyState === EventSource.CLOSED) again = setTimeout(follow, 3000);
    });
  }
  function unfollow() {
    clearTimeout(again);
    source?.close();
    source = null;
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? unfollow() : follow()));
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    search(byId("q").value.trim());
  });
  byId("close-found").addEventListener("click", () => {
    byId("found").hidden = true;
    byId("q").focus();
  });
  byId("unlock").addEventListener("click", needToken);
  byId("detail").addEventListener("close", () => { state.detail = null; });
  setInterval(() => { for (const row of byId("sessions").rows) tickLease(row); }, 1000);
  setInterval(() => { if (!document.hidden) refreshLevels(); }, 2000);
  setInterval(refreshHistory, 10000);
  setInterval(() => { if (state.detail && !document.hidden) refreshDetail(state.detail); }, 3000);
  follow();
})();
