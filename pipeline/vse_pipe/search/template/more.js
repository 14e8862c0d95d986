// Further results as one scrolls to the end of those that are there. Without this script the same link opens them as a page.
"use strict";
(() => {
  const gallery = document.querySelector(".gallery");
  const said = document.querySelector("[role=status]");
  const sight = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && load(), {
    rootMargin: "800px",
  });
  let busy = false;

  async function load() {
    const further = document.querySelector(".further");
    if (busy || !further) return;
    busy = true;
    sight.disconnect();
    const link = further.querySelector("a");
    try {
      const answer = await fetch(link.href);
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const results = [...page.querySelectorAll(".gallery > li")];
      const next = page.querySelector(".further");
      const focused = document.activeElement === link;
      gallery.append(...results);
      if (next) further.replaceWith(next);
      else further.remove();
      if (focused && results.length) results[0].focus();
      said.textContent = `${gallery.children.length} results are shown`;
      watch();
    } catch {
      // The server is busy or gone: the link stays, and whoever wants more presses it.
      said.textContent = "No further results came; press More results to try again";
    } finally {
      busy = false;
    }
  }

  function watch() {
    const further = document.querySelector(".further");
    if (!further) return;
    further.querySelector("a").addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      load();
    });
    sight.observe(further);
  }

  watch();
})();
