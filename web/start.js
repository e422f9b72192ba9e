// The page of all jobs, with the jobs of this server.

import { $, alarm, origin } from "./words.js";

const base = new URL(".", location.href);

origin();

/// The server's jobs come first. The others are marked as absent.
async function jobs() {
  const response = await fetch(new URL("jobs", base));
  if (!response.ok) throw new Error(await response.text());
  const served = await response.json();
  for (const card of document.querySelectorAll("[data-job]")) {
    const { job } = card.dataset;
    if (served[job] !== false) continue; // served, or done without a server
    card.classList.add("absent");
    const link = card.querySelector("h2 a");
    if (link) link.replaceWith(link.textContent);
    card.querySelector(".how").textContent = "Not served here.";
    $("jobs").append(card);
  }
  document.body.dataset.ready = "";
}

jobs().catch(() => alarm("The server does not say which jobs it does. Reload the page."));
