import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { picture, World } from "./world.js";

let world: World;
let open: { page: Page; errors: string[] }[] = [];
beforeAll(async () => {
  world = await World.start();
});
afterAll(async () => {
  await world.close();
});
afterEach(async () => {
  const pages = open;
  open = [];
  for (const { page, errors } of pages) {
    await page.context().close();
    expect(errors).toEqual([]);
  }
});

const note = "Lab/Tour.md";

/** A page with one note. */
async function opened(text: string, how: "edit" | "read", options: Parameters<World["page"]>[0] = {}): Promise<Page> {
  const it = await world.page(options);
  open.push(it);
  await it.page.evaluate(
    async ([path, body, mode]) => {
      await host.write(path, body);
      if (mode === "edit") host.edit(path);
      else host.read(path, "main");
    },
    [note, text, how] as const,
  );
  return it.page;
}

const file = (page: Page): Promise<string> => page.evaluate((p) => host.file(p) ?? "", note);
const status = (page: Page, n = 0) => page.locator(".silk-panel .silk-status").nth(n);
const fence = (code: string, language = "sh"): string => "```" + language + "\n" + code + "\n```\n";
const press = (page: Page, name: string, n = 0): Promise<void> => page.locator(".silk-panel").nth(n).getByRole("button", { name }).click();
/** Another program writes a line at the top of the note in the moment of the next change. */
const syncs = (page: Page): Promise<void> =>
  page.evaluate(() => {
    const { vault } = host.app;
    const sync = (f: Parameters<typeof vault.write>[0]): void => {
      vault.onProcess.delete(sync);
      vault.write(f, `synced\n${f.text}`);
    };
    vault.onProcess.add(sync);
  });
const until = { timeout: 10_000, interval: 50 };

describe.each(["edit", "read"] as const)("%s", (how) => {
  test("nothing runs by itself; a click runs, lines arrive while it runs, and the result is put under the block", async () => {
    const page = await opened(`# Tour\n\n${fence("echo one; sleep 2; echo two; echo three >&2")}\nAfter.\n`, how);
    await expect(page.locator(".silk-panel").count()).resolves.toBe(1);
    await expect(page.locator(".silk-lines").count()).resolves.toBe(0);
    await press(page, "Run this block");
    const stdout = page.getByRole("log", { name: "Output" });
    await expect.poll(() => stdout.innerText(), until).toContain("one");
    expect(await stdout.innerText()).not.toContain("two");
    expect(await page.locator(".silk-panel").getAttribute("data-outcome")).toBe("busy");
    await picture(page, `${how}-running`);
    await expect.poll(() => status(page).innerText(), until).toContain("The result is in the note");
    expect(await status(page).innerText()).toMatch(/^Ok · /);
    expect(await stdout.innerText()).toBe("one\ntwo");
    expect(await page.getByRole("log", { name: "Errors (stderr)" }).innerText()).toBe("three");
    const text = await file(page);
    expect(text).toMatch(/^# Tour\n\n```sh\necho one; sleep 2; echo two; echo three >&2\n```\n>/);
    expect(text).toMatch(/\nAfter\.\n$/);
    expect(text).toContain("> two");
    await picture(page, `${how}-light`);
    await page.evaluate(() => (document.body.className = "theme-dark"));
    await picture(page, `${how}-dark`);
  });
});

test("a click of a script runs nothing", async () => {
  const page = await opened(fence("echo no"), "read");
  await page.evaluate(() => {
    document.querySelector<HTMLElement>(".silk-run")?.click();
  });
  await page.waitForTimeout(500);
  await expect(page.locator(".silk-lines").count()).resolves.toBe(0);
  expect(await file(page)).toBe(fence("echo no"));
});

test("a run that is stopped ends as canceled", async () => {
  const page = await opened(fence("echo begun; sleep 60"), "edit");
  await press(page, "Run this block");
  await expect.poll(() => page.getByRole("log", { name: "Output" }).innerText(), until).toContain("begun");
  await press(page, "Stop");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Canceled · .*in the note/);
  await expect(page.locator(".notice").count()).resolves.toBe(0); // a cancel is no alarm
});

test("a violation is Widow Red: in the panel, a notice, the status bar, the log, the note", async () => {
  const page = await opened(fence("cat /etc/shadow"), "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Violated · .*\/etc\/shadow.*in the note/);
  expect(await page.locator(".silk-violation").first().innerText()).toContain("/etc/shadow");
  expect(await page.locator(".notice.silk-red").innerText()).toContain("Widow Red");
  expect(await page.locator("#statusbar").innerText()).toBe("Widow Red");
  expect(await file(page)).toContain("> [!danger]");
  await page.evaluate(() => {
    host.command("show-runs");
  });
  const alert = page.locator("#right .silk-open");
  await expect.poll(() => alert.innerText()).toContain("/etc/shadow");
  await alert.click(); // shows the run
  await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toContain("cat /etc/shadow");
  expect(await page.locator("#statusbar").innerText()).toBe("Sandbox"); // it was looked at
  await picture(page, "violation-light");
  await page.evaluate(() => (document.body.className = "theme-dark"));
  await picture(page, "violation-dark");
});

test("connections that break cost nothing", async () => {
  const page = await opened(fence("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; sleep 1; echo end"), "edit", { settings: { saveToNote: false } });
  world.proxy.cutAfter(3000, 3);
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Ok · /);
  expect(world.proxy.cuts).toBe(3);
  await press(page, "Copy");
  const want = [...Array.from({ length: 3000 }, (_, i) => `line ${String(i)}`), "end"].join("\n");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(want);
  expect(await file(page)).not.toContain("[!");
});

test("what is typed while it runs stays, and the result goes under its own block", async () => {
  const page = await opened(`top\n\n${fence("sleep 2; echo late")}\n${fence("echo other")}`, "edit");
  await press(page, "Run this block");
  await page.evaluate(() => {
    host.type(0, "typed above\n");
    host.type(host.text().length, "\ntyped below");
  });
  await expect.poll(() => status(page).innerText(), until).toContain("The result is in the note");
  const text = await page.evaluate(() => host.text());
  expect(text).toBe(await file(page));
  expect(text).toMatch(/^typed above\ntop\n\n```sh\nsleep 2; echo late\n```\n> \[!quote\][^]*late[^]*\n```sh\necho other\n```\n\ntyped below$/);
});

test("what another program writes into the note in the moment of the result stays, and so does the result", async () => {
  const page = await opened(fence("echo mine"), "edit");
  await syncs(page);
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("The result is in the note");
  expect(await file(page)).toMatch(/^synced\n```sh\necho mine\n```\n> \[!quote\][^]*mine[^]*$/);
  expect((await file(page)).match(/\[!quote\]/g)).toHaveLength(1);
});

test("a block that was changed while it ran gets no result of other code", async () => {
  const page = await opened(fence("sleep 2; echo late"), "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Runs/);
  await page.evaluate(() => {
    host.type(host.text().indexOf("late"), "very ");
  });
  await expect.poll(() => status(page).innerText(), until).toContain("The result is not in the note");
  expect(await page.evaluate(() => host.text())).toBe(fence("sleep 2; echo very late"));
  expect(await page.getByRole("log", { name: "Output" }).innerText()).toBe("late"); // the panel stays with its block
});

test("a block that was deleted while it ran", async () => {
  const page = await opened(`a\n${fence("sleep 2; echo late")}b\n`, "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Runs/);
  await page.evaluate(() => {
    host.delete(2, host.text().length - 2);
  });
  await expect.poll(() => page.locator(".notice").allInnerTexts(), until).toEqual([expect.stringContaining("The result is not in the note")]);
  expect(await page.evaluate(() => host.text())).toBe("a\nb\n");
});

test("a server that goes away and comes back: the run can be taken up again, and nothing is lost", async () => {
  const page = await opened(fence("echo before; sleep 8; echo after"), "edit", { clock: true });
  await press(page, "Run this block");
  const log = page.getByRole("log", { name: "Output" });
  await expect.poll(() => log.innerText(), until).toBe("before");
  await world.proxy.away();
  await expect.poll(() => status(page).innerText(), until).toMatch(/^The connection is broken/);
  const again = page.getByRole("button", { name: "Reconnect" });
  for (let i = 0; i < 60 && !(await again.isVisible()); i++) {
    await page.clock.fastForward(10_000); // what it waits at most between two attempts
    await page.waitForTimeout(50);
  }
  expect(await status(page).innerText()).toMatch(/^The connection is lost: .*How the run ended is not known/);
  expect(await log.innerText()).toBe("before");
  expect((await again.boundingBox())?.height).toBeGreaterThanOrEqual(24); // WCAG 2.2, 2.5.8
  await picture(page, "lost");
  const pane = page.locator("#right");
  await page.evaluate(() => {
    host.command("show-runs");
  });
  await pane.getByRole("button", { name: "Clear this run from the list" }).waitFor();
  await page.evaluate(() => {
    document.getElementById("right")?.replaceChildren();
  });
  await settings(page);
  await page.getByLabel("Server", { exact: true }).fill("");
  await again.click(); // to no server
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => again.isVisible()).toBe(true);
  await page.getByLabel("Server", { exact: true }).fill(world.url);
  await world.proxy.back();
  await again.focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => status(page).innerText(), { timeout: 20_000 }).toMatch(/^Ok · .*in the note/);
  expect(await log.innerText()).toBe("before\nafter");
  expect(await again.isVisible()).toBe(false);
  expect(await page.evaluate(() => document.activeElement?.tagName)).not.toBe("BODY"); // the focus is somewhere
  expect(await file(page)).toMatch(/before\n> after/);
});

test("in a popover: it runs by a click, goes on when the popover has gone, and is shown when it is back", async () => {
  const page = await opened(`See [[Tour]].\n\n${fence("echo begun; sleep 2; echo done")}`, "edit");
  const hover = (): Promise<void> =>
    page.evaluate((p) => {
      host.hover(p);
    }, note);
  await hover();
  const popover = page.locator(".hover-popover");
  await popover.getByRole("button", { name: "Run this block" }).click();
  await expect.poll(() => popover.getByRole("log", { name: "Output" }).innerText(), until).toBe("begun");
  await picture(page, "popover");
  await page.evaluate(() => {
    host.leave();
  });
  await hover();
  await expect.poll(() => popover.getByRole("log", { name: "Output" }).innerText(), until).toBe("begun\ndone");
  await expect.poll(() => popover.locator(".silk-status").innerText(), until).toMatch(/^Ok · .*in the note/);
  expect(await file(page)).toMatch(/^See[^]*```\n> \[!quote\][^]*done/);
});

test("in a popover, of two equal blocks neither is guessed", async () => {
  const page = await opened(`${fence("date +%N")}\n${fence("date +%N")}`, "edit");
  const text = await file(page);
  await page.evaluate((p) => {
    host.hover(p);
  }, note);
  await page.locator(".hover-popover").getByRole("button", { name: "Run this block" }).first().click();
  await expect.poll(() => page.locator(".hover-popover .silk-status").first().innerText(), until).toMatch(/not in the note as it is saved, or twice/);
  expect(await file(page)).toBe(text);
});

test("after its installation: the first screen says how, and once server and token are in the settings, code runs", async () => {
  const page = await opened(fence("echo x"), "edit", { fresh: true });
  await page.evaluate(() => {
    host.plugin?.onUserEnable();
    Object.assign(window, {
      open: (url: string) => {
        document.body.dataset["opened"] = url;
      },
    });
  });
  const dialog = page.getByRole("dialog", { name: "Run code of your notes in a sandbox" });
  await dialog.waitFor();
  await picture(page, "welcome");
  const headings = (await readFile(new URL("../../docs/howto/obsidian.md", import.meta.url), "utf8")).match(/^## .*/gm) ?? [];
  const anchors = headings.map((h) => "#" + h.slice(3).toLowerCase().replaceAll(" ", "-"));
  const ways = await dialog.getByRole("button", { name: "Show how" }).all();
  expect(ways).toHaveLength(3);
  for (const way of ways) {
    await way.click();
    const url = (await page.locator("body").getAttribute("data-opened")) ?? "";
    expect(url).toMatch(/^https:\/\/github\.com\/silk-sandbox\/silk\/blob\/main\/docs\/howto\/obsidian\.md#/);
    expect(anchors).toContain(new URL(url).hash);
  }
  await page.keyboard.press("Escape");
  await expect(dialog.count()).resolves.toBe(0);

  await press(page, "Run this block"); // there is no server: the same screen
  await expect.poll(() => status(page).innerText()).toMatch(/no server yet/);
  await dialog.getByRole("button", { name: "Open settings" }).click();
  await expect(dialog.count()).resolves.toBe(0);
  expect(await page.evaluate(() => host.app.shown)).toBe("silk-sandbox");
  await settings(page);
  await page.getByLabel("Server", { exact: true }).fill(world.url);
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText()).toMatch(/no token/);
  await page.getByLabel("Token", { exact: true }).fill(world.token);
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Ok · .*in the note/);

  await page.evaluate(() => {
    host.plugin?.onUserEnable();
  });
  await expect(dialog.count()).resolves.toBe(0); // there is a token
});

test("on a desktop with Linux the first screen offers to try it", async () => {
  const page = await opened("x\n", "edit", { fresh: true });
  await page.evaluate(() => {
    Object.assign(host.obsidian.Platform, { isDesktopApp: true, isDesktop: true, isLinux: true });
    host.plugin?.onUserEnable();
  });
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Try it" }).click();
  await expect.poll(() => dialog.getByRole("status").innerText()).toMatch(/no module node:/); // a browser cannot; test/local.test.ts does
});

test("output is text, whatever it is", async () => {
  const page = await opened(fence(`printf '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\\n\\033[31mred\\033[0m\\n\\\`\\\`\\\`\\n[[link]]\\n'`), "read");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("The result is in the note");
  const log = page.getByRole("log", { name: "Output" });
  expect(await log.innerText()).toContain('<img src=x onerror="window.pwned=1"><script>');
  await expect(log.locator("img, script, a").count()).resolves.toBe(0);
  expect(await log.getByText("red", { exact: true }).evaluate((el) => getComputedStyle(el).color)).toBe("rgb(255, 107, 107)");
  expect(await page.evaluate(() => "pwned" in window)).toBe(false);
});

test("100,000 lines are some dozens of elements, and the last one is seen", async () => {
  const page = await opened(fence("seq 1 150000"), "read", { settings: { saveToNote: false } });
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Ok/);
  const log = page.getByRole("log", { name: "Output" });
  expect(await log.locator(".silk-row").last().innerText()).toBe("150000");
  expect(await log.locator(".silk-row").count()).toBeLessThan(60);
  expect(await page.locator(".silk-dropped").first().innerText()).toBe("50,000 earlier lines are not shown");
  await log.evaluate((el) => {
    el.scrollTop = 0;
  });
  await expect.poll(() => log.locator(".silk-row").first().innerText()).toBe("50001");
});

test("a view that comes late has what was printed, and a run of another window can be opened", async () => {
  const page = await opened(fence("echo early; sleep 3; echo late"), "edit");
  await press(page, "Run this block");
  await expect.poll(() => page.getByRole("log", { name: "Output" }).innerText(), until).toContain("early");
  await page.evaluate(() => {
    host.command("show-runs");
  });
  const late = page.locator("#right").getByRole("log", { name: "Output" });
  await expect.poll(() => late.innerText()).toContain("early");
  await picture(page, "runs");
  await expect.poll(() => late.innerText(), until).toBe("early\nlate");

  const other = await opened("nothing\n", "edit");
  await other.evaluate(() => {
    host.command("show-runs");
  });
  await other.getByText("On the server").click();
  await other.locator(".silk-open").first().click();
  await expect.poll(() => other.locator("#right").getByRole("log", { name: "Output" }).innerText(), until).toBe("early\nlate");
});

test("the link to a long log in a note shows the whole log, also after a restart of the app, and raises no alarm again", async () => {
  const page = await opened(fence("seq 1 3000; exit 3"), "read");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");
  await expect(page.locator(".notice").count()).resolves.toBe(1);
  const text = await file(page);
  expect(text).toContain("[full log](obsidian://silk-sandbox?run=");
  const second = await opened(text, "read");
  await second.getByRole("link", { name: "full log" }).click();
  const log = second.locator("#right").getByRole("log", { name: "Output" });
  await expect.poll(() => log.locator(".silk-row").last().innerText(), until).toBe("3000");
  await log.evaluate((el) => {
    el.scrollTop = 0;
  });
  await expect.poll(() => log.locator(".silk-row").first().innerText()).toBe("1");
  expect(await second.evaluate(() => document.activeElement?.className)).toBe("silk-item");
  await expect.poll(() => second.locator("#right .silk-status").innerText()).toMatch(/^Failed · exit 3/);
  await expect(second.locator(".notice").count()).resolves.toBe(0);
  expect(await file(second)).toBe(text);
  await picture(second, "link");

  await second.getByRole("link", { name: "full log" }).click(); // again: it is there already
  await expect(second.locator("#right .silk-panel").count()).resolves.toBe(1);
  await second.evaluate(() => {
    host.open("obsidian://silk-sandbox?run=../v1/tokens");
    host.open("obsidian://silk-sandbox");
    host.open("obsidian://silk-sandbox?run=01M8NAA24ZVQHB7DVXTDB13AB4");
  });
  await expect.poll(() => second.locator(".notice").allInnerTexts()).toEqual(["This link names no run.", "This link names no run.", expect.stringMatching(/no run|not found|unknown/i)]);
});

test("a result reaches its note after a restart of the app", async () => {
  const page = await opened(fence("sleep 2; echo after"), "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Runs/);
  const [text, stored] = await page.evaluate(() => {
    const s = host.stored();
    host.unload();
    return [host.text(), s] as const;
  });
  const second = await world.page({ data: stored as object });
  open.push(second);
  await second.page.evaluate(
    async ([p, t, s]) => {
      host.unload();
      await host.write(p, t);
      await host.load(s, {});
    },
    [note, text, stored] as const,
  );
  await expect.poll(() => file(second.page), until).toMatch(/\[!quote\][^]*after/);
  expect(await second.page.evaluate(() => (host.stored() as { pending: unknown[] }).pending)).toEqual([]);
});

test("what needs approval shows its code, waits, and runs when the owner approves by a click", async () => {
  const page = await opened("```sh {silk timeout=2h}\necho approved\n```\n", "edit", { owner: true });
  await press(page, "Run this block");
  const plan = page.getByRole("dialog", { name: "What this run may do" });
  await plan.getByText("the owner of the server decides").waitFor();
  await picture(page, "plan");
  await plan.getByRole("button", { name: "Ask for approval" }).click();
  const dialog = page.getByRole("dialog", { name: "A run asks for approval" });
  await dialog.getByText("echo approved").waitFor();
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Deny");
  await picture(page, "approval");
  await dialog.getByRole("button", { name: "Approve once" }).click();
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Ok · .*in the note/);
});

test("what is not approved does not run", async () => {
  const page = await opened("```sh {silk timeout=2h}\necho denied\n```\n", "edit", { owner: true, settings: { confirm: "never" } });
  await press(page, "Run this block");
  await page.getByRole("dialog", { name: "A run asks for approval" }).getByRole("button", { name: "Deny" }).click();
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Denied/);
  await expect(page.locator(".silk-row").count()).resolves.toBe(0);
});

test("a click of a script on the plan sends nothing", async () => {
  const page = await opened(fence("echo no"), "edit", { settings: { confirm: "always" } });
  await press(page, "Run this block");
  await page.getByRole("dialog").waitFor();
  await page.evaluate(() => {
    document.querySelector<HTMLElement>(".modal .mod-cta")?.click();
  });
  await page.waitForTimeout(300);
  await expect(page.getByRole("dialog").count()).resolves.toBe(1);
  await page.keyboard.press("Escape");
  expect(await file(page)).toBe(fence("echo no"));
});

test("Stop while the run is being sent ends the run that the server then has", async () => {
  const page = await opened(fence("echo begun; sleep 60"), "edit");
  let go = (): void => undefined;
  const gate = new Promise<void>((done) => (go = done));
  await page.route("**/v1/runs", async (route) => {
    await gate;
    await route.continue();
  });
  const sent = page.waitForRequest("**/v1/runs");
  await press(page, "Run this block");
  await sent;
  await press(page, "Stop");
  go();
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Canceled/);
});

test("Stop before the run is sent sends nothing", async () => {
  const page = await opened(fence("echo no"), "edit");
  let go = (): void => undefined;
  const gate = new Promise<void>((done) => (go = done));
  await page.route("**/v1/notes/blocks", async (route) => {
    await gate;
    await route.continue();
  });
  await press(page, "Run this block");
  await press(page, "Stop");
  go();
  await expect.poll(() => status(page).innerText(), until).toBe("Stopped before it was sent.");
  expect(await file(page)).toBe(fence("echo no"));
});

test("what is read out is how a run stands, and not each second", async () => {
  const page = await opened(fence("sleep 4"), "read");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toBe("Runs");
  const [said, clocks] = await page.evaluate(async () => {
    const live = document.querySelector("[role=status]");
    const timer = document.querySelector("[role=timer]");
    const said: string[] = [];
    const clocks = new Set<string>();
    const observer = new MutationObserver(() => {
      said.push(live?.textContent ?? "");
    });
    if (live !== null) observer.observe(live, { childList: true, characterData: true, subtree: true });
    for (let i = 0; i < 25; i++) {
      clocks.add(timer?.textContent ?? "");
      await new Promise((done) => setTimeout(done, 100));
    }
    return [said, clocks.size] as const;
  });
  expect(said).toEqual([]);
  expect(clocks).toBeGreaterThanOrEqual(2);
});

test("settings that another device has changed count, and what waits here stays", async () => {
  const page = await opened(fence("sleep 2; echo late"), "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/^Runs/);
  await page.evaluate(async (url) => {
    host.obsidian.Plugin.stored = { settings: { server: url, confirm: "always" }, pending: [], alerts: [] };
    await host.plugin?.onExternalSettingsChange();
  }, world.url);
  await expect.poll(() => status(page).innerText(), until).toContain("The result is in the note");
  await press(page, "Run this block");
  await page.getByRole("dialog", { name: "What this run may do" }).waitFor();
});

test("closing the plan sends nothing", async () => {
  const page = await opened(fence("echo no"), "edit", { settings: { confirm: "always" } });
  await press(page, "Run this block");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => page.locator(".silk-run").isEnabled()).toBe(true);
  expect(await file(page)).toBe(fence("echo no"));
  expect(await page.evaluate(() => document.activeElement?.className)).toContain("silk-run"); // the focus is back
});

test("commands: the block under the cursor, all above, stop all", async () => {
  const page = await opened([fence("echo a"), fence("exit 3"), fence("echo c"), fence("sleep 60")].join("\n"), "edit");
  await page.evaluate(() => {
    host.command("run-block", 1);
  });
  await expect.poll(() => status(page, 0).innerText(), until).toContain("in the note");
  const line = (await page.evaluate(() => host.text())).split("\n").indexOf("sleep 60");
  await page.evaluate((l) => {
    host.command("run-above", l);
  }, line);
  await expect.poll(() => status(page, 1).innerText(), until).toMatch(/^Failed · exit 3/);
  await page.waitForTimeout(500);
  expect(await status(page, 2).innerText()).toBe(""); // what follows an end that is not well is not run
  await press(page, "Run this block", 3);
  await expect.poll(() => status(page, 3).innerText(), until).toMatch(/^Runs/);
  await page.evaluate(() => {
    host.command("stop-all");
  });
  await expect.poll(() => status(page, 3).innerText(), until).toMatch(/^Canceled/);
});

test.each([
  ["between others", `a\n\n${fence("echo x")}\n> a quote of mine\n`],
  ["at the end, without a line end", fence("echo x").trimEnd()],
])("Clear takes the result out of the note, and nothing else: %s", async (_, text) => {
  const page = await opened(text, "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");
  await press(page, "Clear");
  await expect.poll(() => file(page), until).toBe(text);
  await expect.poll(() => page.locator(".silk-lines").count()).toBe(0);
});

test("what another program writes in the moment when a result is cleared stays", async () => {
  const page = await opened(fence("echo x"), "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");
  await syncs(page);
  await press(page, "Clear");
  await expect.poll(() => file(page), until).toBe(`synced\n${fence("echo x")}`);
});

// A curve, 160 by 64, as a program makes it.
const png =
  "iVBORw0KGgoAAAANSUhEUgAAAKAAAABAAgMAAADg5ZQ8AAAACVBMVEUICAg5/xRmZmY19/D1AAAA3UlEQVR42t2WSQ7DIAxFP1LYd0HuwxFYxJfo0XrKDimhVKl5qrKo6gXDi5E+DthI/2azMRbMCmGKZgthmrOMMN2WxgyYbmJCBuwBypgp3ps0ZtwxbV98tkp5U77HsONzWkZMYe1OI1YlpxHT1HWfWV0WR6wq7ra4x7DjNik+q5HoYrHHmuDksxaCyWdtUfRZkxF89gKzy5ThSOdLNX+kDEV8sy0cKBx6/DPx8cAH7vizzq8Zvrg4FeDkgtPV8ZmSJ+nj6wMuTbjY8fKJC3K0eSGMPxrwM6RLNi77SbsC9GFAaaZQZ8AAAAAASUVORK5CYII=";

test("a note that is edited all the time is left alone, and a note beside it has the result with its pictures", async () => {
  const text = fence(`base64 -d > curve.png <<END\n${png}\nEND`);
  const page = await opened(text, "edit");
  await page.evaluate(() => {
    const { vault } = host.app;
    vault.onProcess.add((f) => {
      vault.write(f, `${f.text}.`);
    });
  });
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), { timeout: 20_000 }).toContain("The note was edited all the time");
  expect(await file(page)).toBe(`${text}......`);
  const [beside, ...more] = await page.evaluate(() => [...host.app.vault.files.keys()].filter((p) => p.includes("(run ")));
  expect(more).toEqual([]);
  const images = Object.keys(await page.evaluate(() => host.images()));
  expect(images).toHaveLength(1);
  expect(await page.evaluate((p) => host.file(p), beside ?? "")).toContain(`![[${images[0] ?? ""}]]`);
});

test("pictures that a run makes are in the vault and in the note, and go with their result unless something else shows them", async () => {
  const text = fence(`base64 -d > curve.png <<END\n${png}\nEND`);
  const page = await opened(text, "read");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");
  const embed = /!\[\[(silk\/silk-[0-9A-Z]{26}\/curve\.png)\]\]/.exec(await file(page))?.[1] ?? "";
  await expect.poll(() => page.evaluate(() => host.images())).toEqual({ [embed]: png });
  await page.evaluate((p) => {
    host.read(p, "main");
  }, note);
  expect(await page.locator(".callout img").evaluate(async (img: HTMLImageElement) => (await img.decode(), [img.naturalWidth, img.naturalHeight]))).toEqual([160, 64]);
  await picture(page, "image");

  await press(page, "Run this block"); // its picture takes the place of the first
  await expect.poll(async () => Object.keys(await page.evaluate(() => host.images())), until).toEqual([expect.not.stringContaining(embed)]);
  expect(await page.evaluate(() => [...host.app.vault.folders.keys()].filter((f) => f.includes("silk-")).length)).toBe(1);
  const second = Object.keys(await page.evaluate(() => host.images()))[0] ?? "";
  expect(await file(page)).toContain(`![[${second}]]`);
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");

  for (const [other, shows] of [["Other.md", `![[${second}]]`], ["Board.canvas", JSON.stringify({ nodes: [{ type: "file", file: second }] })]] as const) {
    await page.evaluate(([p, t]) => host.write(p, t), [other, shows] as const);
    await press(page, "Clear");
    await expect.poll(() => file(page), until).toBe(text);
    await page.waitForTimeout(200);
    expect(Object.keys(await page.evaluate(() => host.images()))).toEqual([second]);
    await page.evaluate(([p, t]) => host.write(p, t), [note, `${text}> [!quote]- silk-sandbox output · ok\n> ![[${second}]]\n`] as const);
    await page.evaluate((p) => host.write(p, ""), other);
  }
  await press(page, "Clear");
  await expect.poll(() => page.evaluate(() => [host.images(), [...host.app.vault.folders.keys()].filter((f) => f.includes("silk-"))]), until).toEqual([{}, []]);
});

test("equal blocks are told apart", async () => {
  const page = await opened(`${fence("date +%N")}\nbetween\n\n${fence("date +%N")}`, "read");
  await press(page, "Run this block", 1);
  await expect.poll(() => status(page, 1).innerText(), until).toContain("in the note");
  expect(await status(page, 0).innerText()).toBe("");
  expect(await file(page)).toMatch(/^```sh\ndate \+%N\n```\n\nbetween\n\n```sh\ndate \+%N\n```\n> \[!quote\]/);
});

test("blocks with the same code are told apart, also under two names of one language", async () => {
  const page = await opened(`${fence("echo $0", "sh")}\n${fence("echo $0", "shell")}\nEnd.\n`, "edit");
  await page.evaluate(() => {
    host.command("run-above", host.text().split("\n").indexOf("End."));
  });
  for (const n of [0, 1]) await expect.poll(() => status(page, n).innerText(), until).toMatch(/^Ok · .*in the note/);
  await page.evaluate((p) => {
    host.read(p, "right");
  }, note); // a view that comes late
  await expect.poll(() => page.locator("#right .silk-panel .silk-status").allInnerTexts()).toEqual([expect.stringMatching(/^Ok/), expect.stringMatching(/^Ok/)]);
});

test("a block in a callout", async () => {
  const page = await opened("> [!note] Try\n> text\n>\n> ```sh\n> echo in a callout\n> ```\n", "read");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");
  expect(await file(page)).toMatch(/^> \[!note\] Try\n> text\n>\n> ```sh\n> echo in a callout\n> ```\n> > \[!quote\]/);
});

test("what is not runnable says why", async () => {
  const page = await opened("```sh {silk nte=deny}\necho x\n```\n", "edit");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toMatch(/This block cannot run: no attribute is called "nte"/);
});

test("the chat of Claudian gets buttons, and runs nothing by itself", async () => {
  const page = await opened("x\n", "edit");
  await page.evaluate(() => {
    const w = document.createElement("div");
    w.className = "claudian-code-wrapper";
    const code = w.appendChild(document.createElement("pre")).appendChild(document.createElement("code"));
    code.className = "language-sh";
    code.textContent = "echo from the chat";
    document.getElementById("chat")?.append(w);
  });
  const panel = page.locator("#chat .silk-panel");
  await panel.waitFor();
  await page.waitForTimeout(500);
  await expect(panel.locator(".silk-lines").count()).resolves.toBe(0);
  await panel.getByRole("button", { name: "Run this block" }).click();
  await expect.poll(() => panel.getByRole("log", { name: "Output" }).innerText(), until).toBe("from the chat");
  await picture(page, "chat");
  await page.evaluate(() => {
    host.unload();
  });
  await expect(panel.count()).resolves.toBe(0);
});

test("on a phone runs can be seen and not started", async () => {
  const page = await opened(fence("echo x"), "read", { mobile: true });
  for (const name of ["Run this block", "Clear the output"]) await expect(page.getByRole("button", { name }).count()).resolves.toBe(0);
  expect(await page.evaluate(() => [...(host.plugin?.commands.keys() ?? [])])).not.toContain("run-block");
});

test("by keyboard alone, with names, in a size that can be hit", async () => {
  const page = await opened(fence("echo keys"), "read");
  await page.keyboard.press("Tab");
  expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Run this block in the sandbox");
  await page.keyboard.press("Enter");
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");
  expect(await page.locator(".silk-panel").getAttribute("aria-label")).toBe("Run sh code");
  for (const box of await page.locator(".silk-panel button:visible").evaluateAll((all) => all.map((b) => b.getBoundingClientRect().toJSON() as { width: number; height: number }))) {
    expect(Math.min(box.width, box.height)).toBeGreaterThanOrEqual(24); // WCAG 2.2, 2.5.8
  }
  for (const icon of await page.locator(".silk-panel button svg").evaluateAll((all) => all.map((s) => s.getBoundingClientRect().toJSON() as { width: number; height: number }))) {
    expect([icon.width, icon.height]).toEqual([14, 14]); // drawn, whatever fonts there are
  }
  expect(await page.locator(".silk-panel button svg").count()).toBe(4);
  const log = page.getByRole("log", { name: "Output" });
  await log.focus();
  expect(await log.evaluate((el) => getComputedStyle(el).outlineStyle)).not.toBe("none");
});

/** Shows the settings in the place of the note. */
const settings = (page: Page): Promise<void> =>
  page.evaluate(() => {
    const tab = host.plugin?.tab;
    tab?.display();
    if (tab !== undefined) document.getElementById("right")?.replaceChildren(tab.containerEl);
  });
const colour = (page: Page, selector: string): Promise<string> => page.locator(selector).first().evaluate((el) => getComputedStyle(el).color);

test("colours of outcomes can be chosen, are applied at once where they can be read, and can be reset", async () => {
  const page = await opened(fence("echo x; echo y >&2"), "read");
  await press(page, "Run this block");
  await expect.poll(() => status(page).innerText(), until).toContain("in the note");
  await page.evaluate((p) => {
    host.read(p, "main");
  }, note);
  const ok = ".silk-panel .silk-status";
  const before = await colour(page, ok);
  await settings(page);
  await page.getByLabel("Ended well", { exact: true }).fill("#0000c0");
  expect(await colour(page, ok)).toBe("rgb(0, 0, 192)");
  await page.evaluate(() => (document.body.className = "theme-dark"));
  expect(await colour(page, ok)).not.toBe("rgb(0, 0, 192)"); // which nobody could read there
  await page.evaluate(() => (document.body.className = "theme-light"));
  const red = page.locator("[data-callout='widow-red']");
  const border = (): Promise<string> => red.evaluate((el) => getComputedStyle(el).borderLeftColor);
  expect(await border()).toBe("rgb(204, 0, 0)");
  await page.getByLabel("Widow Red", { exact: true }).fill("#800080");
  expect(await border()).toBe("rgb(128, 0, 128)");
  expect(await page.evaluate(() => (host.stored() as { settings: { colours: unknown } }).settings.colours)).toEqual({ ok: "#0000c0", failed: "#ff0000", violated: "#800080", other: "#cccccc" });
  await picture(page, "colours");
  await page.getByRole("button", { name: "Reset: Ended well" }).click();
  expect(await colour(page, ok)).toBe(before);
  expect(await page.getByLabel("Ended well", { exact: true }).inputValue()).toBe("#39ff14");
  expect(await border()).toBe("rgb(128, 0, 128)"); // the others stay
  const windows = await page.evaluate(() => {
    const doc = document.implementation.createHTMLDocument();
    host.app.events.dispatchEvent(new CustomEvent("window-open", { detail: { doc } }));
    const set = doc.body.style.getPropertyValue("--silk-violated");
    host.unload();
    return [set, document.body.style.length];
  });
  expect(windows).toEqual(["#800080", 0]); // a window of its own has them too, and nothing stays of a plugin that is switched off
});

test("settings hold no token in the vault's files, and a wrong one is said", async () => {
  const page = await opened(fence("echo x"), "edit");
  await settings(page);
  await page.getByLabel("Token", { exact: true }).first().fill("silk_wrong");
  await page.getByRole("button", { name: "Test: Connection" }).click();
  await expect.poll(() => page.locator(".setting-item", { hasText: "Connection" }).innerText(), until).toMatch(/does not accept the token/);
  await page.getByLabel("Ask before a run").selectOption("always");
  const stored = await page.evaluate(() => JSON.stringify(host.stored()));
  expect(stored).toContain('"confirm":"always"');
  expect(stored).not.toContain("silk_");
  await picture(page, "settings");
});

test("typing in a note with 50 blocks is not slowed down", async () => {
  const blocks = Array.from({ length: 50 }, (_, i) => `Text ${String(i)}\n\n${fence(`echo ${String(i)}`)}`).join("\n");
  const plain = await opened(blocks.replaceAll("```sh", "```text"), "edit");
  const withPanels = await opened(blocks, "edit");
  expect(await withPanels.locator(".silk-panel").count()).toBeGreaterThan(5);
  const at = blocks.indexOf("Text 1\n") + 6;
  const measure = (p: Page): Promise<number> => p.evaluate((a) => host.typing(a, 200), at);
  const rounds: (readonly [number, number])[] = [];
  for (let i = 0; i < 5; i++) rounds.push([await measure(plain), await measure(withPanels)] as const);
  const best = (k: 0 | 1): number => Math.min(...rounds.map((r) => r[k]));
  process.stdout.write(`a key stroke: ${(best(0) / 200).toFixed(2)} ms without panels, ${(best(1) / 200).toFixed(2)} ms with\n`);
  expect(best(1) / 200).toBeLessThan(best(0) / 200 + 4); // a quarter of a frame at 60 Hz
});
