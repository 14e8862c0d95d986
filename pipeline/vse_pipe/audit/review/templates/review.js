// One finding at a time: it is fetched, shown as text, and each decision is sent before the next finding appears.
"use strict";
(() => {
  const QUESTIONS = {
    pair: "Does this caption fit this picture?",
    caption: "Is this caption of use?",
    picture: "Is this picture of use?",
    duplicate: "Are these the same picture?",
    duplicate_caption: "Do these captions say the same?",
    leak: "Is this picture in another split too?",
  };
  const HEADINGS = { pair: "This pair", caption: "This caption", picture: "This picture", duplicate: "This picture", duplicate_caption: "This caption", leak: "This picture" };
  const PARTNERS = { picture: "Proposed picture", merge: "The one that stays", move: "In another split" };
  // As docs/cleaning.md has it. Of other proposals only the doubt is known.
  const RIGHT = { picture: "one proposed picture in three is right" };
  const TAKEN = {
    picture: "Move the caption to the picture on the right",
    merge: "Merge it into the one on the right",
    move: "Move it to the split of the one on the right",
  };
  const SHORT = { picture: "Move", merge: "Merge", move: "Move" };
  const DONE = { keep: "kept", drop: "dropped", take: "proposal taken", weight: "weighted", undo: "undone" };
  const KEYS = { k: "keep", d: "drop", t: "take", w: "weight", u: "undo" };
  const PAUSE = 250; // milliseconds without a key, after which words count as written
  const at = (id) => document.getElementById(id);
  const buttons = [...document.querySelectorAll("[data-decision]")];
  const kinds = [...document.querySelectorAll("[data-kind]")];
  const decided = []; // names of findings, the last decision at the end
  let kind = "";
  let shown = null;
  let busy = false;
  let typing = 0;

  const nameOf = (finding) => `${finding.kind}/${finding.id}`;
  const spoken = (finding) => `${finding.kind.replace("_", " ")} ${finding.id}`;

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  async function ask(address, options) {
    let answer;
    try {
      answer = await fetch(address, options);
    } catch {
      throw new Error("The server does not answer. What you decided last may not be saved: start vse-pipe review again.");
    }
    const document = await answer.json();
    if (!answer.ok) throw new Error(document.error);
    return document;
  }

  // Only one request at a time; a key pressed meanwhile would decide on a finding that nobody has seen.
  async function once(work) {
    if (busy) return;
    busy = true;
    try {
      await work();
      at("problem").hidden = true;
    } catch (error) {
      at("problem").textContent = error.message;
      at("problem").hidden = false;
    } finally {
      busy = false;
    }
  }

  function fields() {
    return { kind, text: at("text").value, state: at("state").value };
  }

  async function show(where = {}, said = "") {
    const query = new URLSearchParams({ ...fields(), ...where });
    const answer = await ask(`/api/finding?${query}`);
    shown = answer.finding;
    figures(answer);
    at("sides").replaceChildren();
    at("others").hidden = true;
    at("group").hidden = true;
    if (shown) finding(answer);
    else {
      const done = answer.matching > 0 && at("state").value === "undecided";
      at("question").textContent = done ? "All of these are decided" : "No finding fits the filter";
      at("why").textContent = done ? "Choose other findings in the filter, or close the page: everything is saved." : "";
    }
    actions(answer);
    const address = new URLSearchParams({ ...fields(), ...(shown ? { at: nameOf(shown) } : {}) });
    history.replaceState(null, "", `/?${address}`);
    const again = answer.wrapped ? "From the other end: " : "";
    const now = shown ? `Now ${spoken(shown)}, ${answer.number} of ${answer.matching}.` : at("question").textContent;
    // Screen readers say the finding; others see it.
    const heard = shown ? element("span", { className: "skip" }, ` ${at("question").textContent} ${shown.caption}`) : "";
    at("status").replaceChildren([said, again + now].filter(Boolean).join(" "), heard);
  }

  function figures(answer) {
    const { decided: done, total, kinds: byKind } = answer.progress;
    at("bar").max = total;
    at("bar").value = done;
    at("count").textContent = `${done.toLocaleString("en")} of ${total.toLocaleString("en")} decided`;
    for (const button of kinds) {
      const one = byKind[button.dataset.kind] ?? answer.progress;
      const label = (button.dataset.kind || "all").replace("_", " ");
      button.replaceChildren(`${label} `, element("span", { className: "quiet" }, `${one.decided}/${one.total}`));
      button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    }
  }

  function finding(answer) {
    at("question").textContent = QUESTIONS[shown.kind];
    const doubt = shown.doubt === null ? null : `doubt ${shown.doubt.toFixed(2)}`;
    const why = [spoken(shown), doubt, shown.why || null, RIGHT[shown.proposal]];
    at("why").textContent = why.filter(Boolean).join(" · ");
    at("sides").append(...sides());
    group(answer);
    others();
  }

  function sides() {
    const own = side(HEADINGS[shown.kind], shown.picture, shown.file, shown.caption);
    if (shown.decision) own.prepend(element("p", { className: `verdict ${shown.decision}` }, DONE[shown.decision]));
    if (!shown.other_file && !shown.other_caption && shown.other === null) return [own];
    const heading = PARTNERS[shown.proposal] ?? "Compared with";
    const proposed = side(heading, shown.other_picture, shown.other_file, shown.other_caption);
    if (shown.kind === "pair" && shown.proposal === "picture") {
      const texts = proposed.querySelectorAll(".caption");
      for (const text of texts) text.prepend(element("span", { className: "quiet" }, "its own caption: "));
    }
    return [own, proposed];
  }

  function side(heading, url, file, caption) {
    const words = caption ? element("p", { className: "caption", dir: "auto" }, caption) : null;
    const text = element("div", {}, words, element("p", { className: "quiet file", dir: "auto" }, file));
    return element("div", { className: "side" }, element("h3", {}, heading), tile(url, file, caption), text);
  }

  function tile(url, file, alt) {
    const gone = () => element("span", { className: "picture blank", dir: "auto" }, file ? `${file}: no picture` : "no picture");
    if (!url) return gone();
    const image = element("img", { className: "picture", alt: alt || file, decoding: "async" });
    image.addEventListener("error", () => image.replaceWith(gone()));
    image.src = url;
    return image;
  }

  function group(answer) {
    const members = answer.group;
    at("group").hidden = !members.length;
    at("finding").classList.toggle("grouped", members.length > 0);
    if (!members.length) return;
    const heading = element("h3", {}, `${answer.grouped} in this group`);
    const list = members.map((one) => {
      const current = nameOf(one) === nameOf(shown);
      const text = one.decision ? `${spoken(one)}: ${DONE[one.decision]}` : spoken(one);
      const button = element("button", { type: "button", title: one.caption, className: one.decision }, tile(one.picture, one.file, ""), text);
      if (current) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => once(() => show({ at: nameOf(one) })));
      return element("li", {}, button);
    });
    at("group").replaceChildren(heading, element("ul", {}, ...list));
    // scrollIntoView would also move the place where Tab goes on.
    const row = at("group").querySelector("ul");
    const current = row.querySelector("[aria-current]");
    if (current) row.scrollLeft = current.offsetLeft - row.offsetLeft - row.clientWidth / 2;
  }

  function others() {
    at("others").hidden = !shown.others.length;
    at("others").replaceChildren(
      ...shown.others.flatMap((one, place) => [place ? ", " : "", element("b", {}, one.by || "(no name)"), `: ${DONE[one.decision]}`]),
    );
  }

  function actions(answer) {
    const can = {
      keep: shown !== null,
      drop: shown !== null,
      take: shown !== null && shown.proposal !== "",
      weight: shown !== null && shown.kind === "pair" && shown.doubt !== null,
      undo: (shown !== null && shown.decision !== "") || decided.length > 0,
    };
    for (const button of buttons) {
      const decision = button.dataset.decision;
      // A button that is about to be disabled would lose the focus.
      button.setAttribute("aria-disabled", String(!can[decision]));
      if (["keep", "drop", "take", "weight"].includes(decision)) {
        button.setAttribute("aria-pressed", String(shown !== null && shown.decision === decision));
      }
    }
    const take = buttons.find((one) => one.dataset.decision === "take");
    const proposal = shown?.proposal ?? "";
    take.hidden = shown !== null && (proposal === "" || proposal === "drop");
    take.querySelector("span").textContent = SHORT[proposal] ?? "Take";
    take.title = TAKEN[proposal] ?? "";
    if (TAKEN[proposal]) take.setAttribute("aria-label", TAKEN[proposal]);
    else take.removeAttribute("aria-label");
    buttons.find((one) => one.dataset.decision === "weight").hidden = !can.weight;
    document.querySelector(".whole").hidden = !answer.group.length;
    if (!answer.group.length) at("whole").checked = false;
  }

  async function decide(decision) {
    const button = buttons.find((one) => one.dataset.decision === decision);
    // t takes a proposal to drop, too.
    if (button.getAttribute("aria-disabled") === "true") return;
    if (decision === "undo" && !(shown && shown.decision)) {
      await show({ at: decided[decided.length - 1] });
      if (!shown.decision) return void decided.pop();
    }
    const whole = at("whole").checked && !document.querySelector(".whole").hidden;
    const body = JSON.stringify({ kind: shown.kind, id: shown.id, decision, group: whole });
    const answer = await ask("/api/decisions", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const name = nameOf(answer.finding);
    const before = decided.lastIndexOf(name);
    if (before >= 0) decided.splice(before, 1);
    if (decision !== "undo") decided.push(name);
    const number = answer.rows > 1 ? `${answer.rows} findings` : spoken(answer.finding);
    const done = DONE[answer.finding.decision || "undo"];
    const was = answer.before && decision !== "undo" && answer.before !== answer.finding.decision ? ` (before: ${DONE[answer.before]})` : "";
    const peers = answer.finding.others.map((one) => `${one.by || "(no name)"}: ${DONE[one.decision]}`).join(", ");
    const said = `${number} ${done}${was}${peers ? `; ${peers}` : ""}.`;
    // Who is contradicted sees it beside the finding and goes on with an arrow.
    const contradicts = answer.finding.others.some((one) => one.decision !== answer.finding.decision);
    if (decision === "undo" || contradicts) await show({ at: name }, said);
    else await show({ after: name }, said);
  }

  // Words that are written while a request runs are searched after it.
  function search(pause) {
    clearTimeout(typing);
    typing = setTimeout(() => (busy ? search(PAUSE) : once(() => show())), pause);
  }

  function move(direction) {
    return show(shown ? { [direction]: nameOf(shown) } : {});
  }

  for (const button of buttons) button.addEventListener("click", () => once(() => decide(button.dataset.decision)));
  for (const button of document.querySelectorAll("[data-move]")) {
    button.addEventListener("click", () => once(() => move(button.dataset.move)));
  }
  for (const button of kinds) {
    button.addEventListener("click", () => {
      kind = button.dataset.kind;
      once(() => show());
    });
  }
  at("state").addEventListener("change", () => {
    at("question").focus();
    once(() => show());
  });
  at("form").addEventListener("submit", (event) => {
    event.preventDefault();
    at("question").focus();
    search(0);
  });
  at("text").addEventListener("input", () => search(PAUSE));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.matches("input[type=search], select")) {
      if (event.key === "Escape") at("question").focus();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      at("filter").open = true;
      at("text").focus();
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      once(() => move(event.key === "ArrowLeft" ? "before" : "after"));
    } else if (event.key.toLowerCase() === "g" && !document.querySelector(".whole").hidden) {
      at("whole").checked = !at("whole").checked;
    } else if (event.key.toLowerCase() in KEYS && !event.repeat) {
      event.preventDefault();
      const decision = KEYS[event.key.toLowerCase()];
      once(() => decide(decision));
    }
  });
  // Another page may have decided meanwhile.
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && shown) once(() => show({ at: nameOf(shown) }));
  });

  const start = new URLSearchParams(location.search);
  kind = kinds.some((button) => button.dataset.kind === start.get("kind")) ? start.get("kind") : "";
  at("text").value = start.get("text") ?? "";
  at("state").value = start.get("state") ?? "undecided";
  if (!at("state").value) at("state").value = "undecided";
  at("filter").open = matchMedia("(min-width: 60rem)").matches;
  once(() => show(start.get("at") ? { at: start.get("at") } : {}).catch(() => show()));
})();
