import { Modal, Setting, type App } from "obsidian";
import { labelSettings } from "./labels.js";
import { canStart } from "./server.js";

const pages = "https://github.com/silk-sandbox/silk/blob/main/docs/howto/obsidian.md";

/** The first screen: how this computer comes to a sandbox. */
export class Welcome extends Modal {
  readonly #openSettings: () => void;
  readonly #test: () => Promise<string>;

  constructor(app: App, openSettings: () => void, test: () => Promise<string>) {
    super(app);
    this.#openSettings = openSettings;
    this.#test = test;
    this.modalEl.addClass("silk-dialog");
  }

  override onOpen(): void {
    const { contentEl } = this;
    this.setTitle("Run code of your notes in a sandbox");
    contentEl.createEl("p", { text: "Code runs on a silk server, which isolates it: it sees neither your files nor your network. Nothing runs before you press Run." });
    const way = (name: string, desc: string, anchor: string): Setting =>
      new Setting(contentEl).setName(name).setDesc(desc).addButton((b) => b.setButtonText("Show how").onClick(() => window.open(`${pages}#${anchor}`)));
    if (canStart()) {
      new Setting(contentEl)
        .setName("This computer")
        .setDesc("Linux is here: with silk installed, the vault gets a server of its own when you first press Run.")
        .addButton((b) =>
          b
            .setButtonText("Try it")
            .setCta()
            .onClick(async () => {
              said.setText("Starts…");
              said.setText(await this.#test());
            }),
        );
    } else {
      way("Windows", "Windows has Linux in it: install silk in WSL, and this app reaches it.", "windows");
      way("macOS", "A small Linux machine on your Mac does it.", "macos");
    }
    way("A server of your own or your team", "Its address and a token go into the settings.", "a-server-elsewhere");
    const said = contentEl.createDiv({ cls: "silk-said", attr: { role: "status" } });
    new Setting(contentEl).addButton((b) =>
      b.setButtonText("Open settings").onClick(() => {
        this.close();
        this.#openSettings();
      }),
    );
    labelSettings(contentEl);
  }

  override onClose(): void {
    this.contentEl.empty();
  }
}
