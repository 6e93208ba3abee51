// The routing switch: a question first, and errors where the question was.

import { byID, getJSON, h, put, set } from "./dom.js";
import { MODES } from "./words.js";

// Switch keeps the buttons and the dialog.
export class Switch {
  #mode = null;
  #wanted = null;
  #dialog = byID("switch-dialog");

  constructor() {
    const buttons = Object.keys(MODES).map((mode) =>
      h("button", { type: "button", "data-mode": mode, "aria-pressed": "false", title: MODES[mode], onclick: () => this.#ask(mode) }, mode));
    byID("switch").append(...buttons);
    byID("switch-cancel").addEventListener("click", () => this.#dialog.close());
    // It is kept no longer than it is needed.
    this.#dialog.addEventListener("close", () => {
      byID("switch-token").value = "";
    });
    byID("switch-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#apply();
    });
  }

  // show takes in the mode in force.
  show(mode) {
    if (this.#mode === mode) return;
    this.#mode = mode;
    for (const b of byID("switch").querySelectorAll("button")) set(b, "aria-pressed", b.dataset.mode === mode ? "true" : "false");
  }

  #ask(mode) {
    if (mode === this.#mode) return;
    this.#wanted = mode;
    put(byID("switch-title"), `Switch routing from ${this.#mode ?? "?"} to ${mode}?`);
    put(byID("switch-means"), MODES[mode]);
    put(byID("switch-confirm"), `Switch to ${mode}`);
    this.#fail("");
    this.#dialog.showModal();
    byID("switch-cancel").focus();
  }

  async #apply() {
    const confirm = byID("switch-confirm");
    const token = byID("switch-token").value;
    set(confirm, "disabled", true);
    try {
      const answer = await getJSON("/-/routing", {
        method: "PUT", body: JSON.stringify({ mode: this.#wanted }), headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
      });
      this.show(answer.mode);
      this.#dialog.close();
    } catch (failure) {
      this.#fail(`Not switched: ${failure.message}`);
      if (failure.status === 401) {
        byID("switch-token-ask").hidden = false;
        byID("switch-token").focus();
      }
    } finally {
      set(confirm, "disabled", null);
    }
  }

  #fail(text) {
    put(byID("switch-error"), text);
    byID("switch-error").hidden = text === "";
  }
}
