// Keeps the page fresh. Without it everything can be read, by loading it again.
"use strict";

const FRESH_MS = 3000;

/** Take over the parts of a newly rendered page that have changed. */
async function refresh() {
  if (document.hidden) return;
  let reply;
  try {
    reply = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return; // The gateway is away; the next turn asks again.
  }
  if (!reply.ok || reply.redirected) return;
  const rendered = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const part of document.querySelectorAll("[data-fresh]")) {
    const now = rendered.getElementById(part.id);
    // What somebody is in the middle of stays as it is.
    const used = part !== document.activeElement && part.contains(document.activeElement);
    if (now && !used && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
  }
  return rendered;
}

/** Follow a job's text from where the page was rendered. */
function follow(place) {
  const status = document.getElementById("status");
  const thinking = document.getElementById("thinking");
  const text = place.firstChild || place.appendChild(document.createTextNode(""));
  const job = encodeURIComponent(place.dataset.job);
  let told = "";
  let cursor = place.dataset.cursor;

  function tell(words, trouble = false) {
    // A screen reader reads each change aloud, so only what is new is said.
    if (words !== told) status.textContent = told = words;
    status.toggleAttribute("data-trouble", trouble);
  }

  /** An EventSource gives up at any answer that is no stream, also at a proxy's own 502. */
  async function again() {
    let refused = false;
    try {
      const reply = await fetch(`/jobs/${job}`, { headers: { Accept: "application/json" } });
      refused = reply.status >= 400 && reply.status < 500;
    } catch {
      // Nobody is there to say no.
    }
    if (refused) tell("The job can not be read any more: load the page again", true);
    else setTimeout(open, 1000);
  }

  function open() {
    const query = new URLSearchParams({ from: cursor });
    const source = new EventSource(`/jobs/${job}/events?${query}`);

    function on(name, act) {
      source.addEventListener(name, (event) => {
        cursor = event.lastEventId || cursor;
        act(JSON.parse(event.data));
      });
    }

    on("text", (item) => {
      tell("Writing");
      const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 8;
      text.appendData(item.text);
      if (end) scrollTo({ top: document.documentElement.scrollHeight });
    });
    on("cut", (item) => {
      // Offsets count code points, and a string of JavaScript has more units than that.
      text.data = Array.from(text.data).slice(0, item.offset).join("");
    });
    on("thinking", (item) => {
      tell("Thinking");
      thinking.textContent = item.tokens.toLocaleString("en");
    });
    on("note", () => {});
    on("attempt", () => refresh());
    on("superseded", (item) => tell(`Begun again: ${item.reason || "the stream was cut"}`));
    on("status", (item) => tell(`${item.state}${item.detail ? `: ${item.detail}` : ""}`));
    on("problem", (item) => {
      source.close();
      tell(item.detail || item.title, true);
    });
    on("end", (item) => {
      source.close();
      tell(`Ended: ${item.outcome}`);
      place.removeAttribute("data-live");
      document.getElementById("cancel")?.remove();
      finish();
    });
    source.onopen = () => {
      if (told.startsWith("Connection")) tell("Connected");
    };
    source.onerror = () => {
      tell("Connection lost: trying again", true);
      if (source.readyState === EventSource.CLOSED) again();
    };
  }

  open();
}

/** The result, once the record has it. */
async function finish() {
  const rendered = await refresh();
  const billed = rendered?.getElementById("thinking");
  if (billed) document.getElementById("thinking").textContent = billed.textContent;
  const changes = rendered?.getElementById("changes-title")?.closest("section");
  if (changes && !document.getElementById("changes-title")) {
    document.getElementById("answer-title").closest("section").before(changes);
  }
}

const place = document.querySelector("#text[data-live]");
if (place) follow(place);
if (document.querySelector("[data-fresh]") && (place || !document.getElementById("text"))) {
  setInterval(() => {
    if (!document.getElementById("text") || document.querySelector("#text[data-live]")) refresh();
  }, FRESH_MS);
}
