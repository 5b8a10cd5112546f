import { PluginSettingTab, Setting, type App, type Plugin } from "obsidian";
import { outcomeColours, type OutcomeColours } from "../colour.js";
import type { Settings } from "../settings.js";
import { labelSettings } from "./labels.js";
import type { Secrets } from "./server.js";

/** What the settings change. */
export interface TabHost {
  settings(): Settings;
  change(settings: Partial<Settings>): void;
  readonly secrets: Secrets;
  /** Whether tokens are in the host's keychain, and not in a file of the vault. */
  readonly keychain: boolean;
  /** Asks the server who it is; for people. */
  test(): Promise<string>;
  welcome(): void;
}

export class SettingsTab extends PluginSettingTab {
  readonly #host: TabHost;

  constructor(app: App, plugin: Plugin, host: TabHost) {
    super(app, plugin);
    this.#host = host;
  }

  override display(): void {
    this.#draw();
  }

  #draw(): void {
    const { containerEl } = this;
    const host = this.#host;
    const s = host.settings();
    containerEl.empty();
    new Setting(containerEl)
      .setName("First steps")
      .setDesc("How this computer comes to a sandbox.")
      .addButton((b) =>
        b.setButtonText("Show").onClick(() => {
          host.welcome();
        }),
      );
    new Setting(containerEl)
      .setName("Server")
      .setDesc("Address of a silk server. Empty: this vault's own, started when it is needed (desktop with Linux).")
      .addText((t) =>
        t
          .setPlaceholder("http://127.0.0.1:7455")
          .setValue(s.server)
          .onChange((server) => {
            host.change({ server: server.trim() });
          }),
      );
    new Setting(containerEl)
      .setName("Program")
      .setDesc("Where silk is, for the vault's own server.")
      .addText((t) =>
        t.setValue(s.silk).onChange((silk) => {
          host.change({ silk: silk.trim() || "silk" });
        }),
      );
    this.#token("Token", "Of a runner: it starts runs and sees its own.", "runner");
    this.#token("Token of the owner", "Optional: with it, runs that ask for more are approved here, by a click.", "owner");
    if (!host.keychain) containerEl.createDiv({ cls: "silk-callout", text: "This app offers no keychain: tokens are stored in the vault's plugin folder, and go where the vault is synced to." });
    const test = new Setting(containerEl).setName("Connection").addButton((b) =>
      b.setButtonText("Test").onClick(async () => {
        test.setDesc("Asks…");
        test.setDesc(await host.test());
      }),
    );

    new Setting(containerEl).setName("Runs").setHeading();
    new Setting(containerEl)
      .setName("Ask before a run")
      .setDesc("Shows what the run may do before anything is sent.")
      .addDropdown((d) =>
        d
          .addOptions({ never: "Never", beyond: "When it asks for more than its profile", always: "Always" })
          .setValue(s.confirm)
          .onChange((v) => {
            host.change({ confirm: v === "never" || v === "always" ? v : "beyond" });
          }),
      );
    new Setting(containerEl)
      .setName("Time limit")
      .setDesc("Seconds, for blocks that name none. 0: the profile's.")
      .addText((t) =>
        t.setValue(String(s.timeoutSeconds)).onChange((v) => {
          const n = Number(v);
          if (Number.isFinite(n) && n >= 0 && n <= 86_400) host.change({ timeoutSeconds: n });
        }),
      );
    new Setting(containerEl)
      .setName("Profiles")
      .setDesc("For blocks that name none: a language and its profile on each line.")
      .addTextArea((t) =>
        t
          .setPlaceholder("python lab:repo")
          .setValue(Object.entries(s.profiles).map((e) => e.join(" ")).join("\n"))
          .onChange((v) => {
            const pairs = v.split("\n").map((l) => l.trim().split(/\s+/)).filter((p): p is [string, string] => p.length === 2);
            host.change({ profiles: Object.fromEntries(pairs) });
          }),
      );
    new Setting(containerEl)
      .setName("More languages")
      .setDesc("Words of fences that get a button too, separated by spaces.")
      .addText((t) =>
        t.setValue(s.languages.join(" ")).onChange((v) => {
          host.change({ languages: v.toLowerCase().split(/\s+/).filter((w) => w !== "") });
        }),
      );

    new Setting(containerEl).setName("Results").setHeading();
    this.#toggle("Put results into the note", "Under the block, in place of an earlier one.", "saveToNote");
    new Setting(containerEl)
      .setName("Folder for pictures")
      .setDesc("Empty: pictures that a run made are not put into the vault.")
      .addText((t) =>
        t.setValue(s.attachments).onChange((v) => {
          host.change({ attachments: v.trim().replace(/^\/+|\/+$/g, "") });
        }),
      );
    this.#toggle("Colours of programs", "Obey the colours that programs print, as far as they can be read.", "ansi");
    this.#toggle("Buttons in the Claudian chat", "Under its blocks of code. They run nothing by themselves.", "chat");

    new Setting(containerEl).setName("Colours of outcomes").setDesc("Text gets darker or lighter where a colour could not be read.").setHeading();
    this.#colour("Ended well", "With exit code 0.", "ok");
    this.#colour("Did not end well", "Failed, out of time or memory, or an error of the sandbox.", "failed");
    this.#colour("Widow Red", "Violations, and what was denied.", "violated");
    this.#colour("Anything else", "Waits, runs, or was canceled.", "other");
    labelSettings(containerEl);
  }

  #toggle(name: string, desc: string, key: "saveToNote" | "ansi" | "chat"): void {
    new Setting(this.containerEl)
      .setName(name)
      .setDesc(desc)
      .addToggle((t) =>
        t.setValue(this.#host.settings()[key]).onChange((v) => {
          this.#host.change({ [key]: v });
        }),
      );
  }

  #colour(name: string, desc: string, key: keyof OutcomeColours): void {
    const choose = (colour: string): void => {
      this.#host.change({ colours: { ...this.#host.settings().colours, [key]: colour } });
    };
    new Setting(this.containerEl)
      .setName(name)
      .setDesc(desc)
      .addColorPicker((c) => {
        c.setValue(this.#host.settings().colours[key]).onChange(choose);
      })
      .addExtraButton((b) =>
        b
          .setIcon("rotate-ccw")
          .setTooltip(`Reset: ${name}`)
          .onClick(() => {
            choose(outcomeColours[key]);
            this.#draw();
          }),
      );
  }

  #token(name: string, desc: string, id: "runner" | "owner"): void {
    new Setting(this.containerEl)
      .setName(name)
      .setDesc(desc)
      .addText((t) => {
        t.inputEl.type = "password";
        t.inputEl.autocomplete = "off";
        t.setPlaceholder(this.#host.secrets.get(id) === "" ? "None" : "Stored").onChange((v) => {
          if (v.trim() !== "") this.#host.secrets.set(id, v.trim());
        });
      })
      .addExtraButton((b) =>
        b
          .setIcon("trash")
          .setTooltip(`Forget: ${name}`)
          .onClick(() => {
            this.#host.secrets.set(id, "");
            this.#draw();
          }),
      );
  }
}
