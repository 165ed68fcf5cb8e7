// Steps of looks.rs.
import { call, check, login, steps, until } from "../../node/page.mjs";

const PHONE = { width: 390, height: 844 };

const field = (page) => page.getByRole("textbox", { name: "Message" });
const answer = (page) => page.locator(".message.assistant:not(.live)").last();

// Has the agent say something.
async function hear(page, text) {
  await field(page).fill(`@mock text text=${JSON.stringify(text)}`);
  await page.keyboard.press("Enter");
  await answer(page).waitFor();
}

export default steps({
  async wide_table({ page, args }) {
    await page.setViewportSize(PHONE);
    await login(page, args);
    const rows = [
      ["Name", "Kind", "Where it lives", "What it does", "Since", "Number"],
      ["-", "-", "-", "-", "-", "-"],
      ["alphabet", "first", "/usr/local/share", "It has a sentence that goes on and on and does not end", "2024", "1234567"],
    ];
    await hear(page, rows.map((cells) => cells.join(" | ")).join("\n"));
    const lines = (text) => answer(page).getByText(text, { exact: true }).evaluate((cell) => {
      const words = document.createRange();
      words.selectNodeContents(cell);
      return words.getClientRects().length;
    });
    for (const word of ["Name", "alphabet", "2024", "1234567"]) check((await lines(word)) === 1, `${word} is on one line`);
    const tall = await lines("It has a sentence that goes on and on and does not end");
    check(tall < 6, "a sentence is no column of words", tall);
    const isScrolled = await answer(page).getByRole("group", { name: "Table" }).evaluate((box) => box.scrollWidth > box.clientWidth && box.getBoundingClientRect().right <= innerWidth);
    check(isScrolled, "it is scrolled, and the page is not");
  },

  // In a low window, a form and the settings: what has the focus is above the bar that stays.
  async in_sight({ page, args }) {
    await page.setViewportSize({ width: 1000, height: 420 });
    await login(page, args, "#/cron");
    const walk = async (bar, steps) => {
      for (let step = 0; step < steps; step++) {
        await page.keyboard.press("Tab");
        const told = await bar.evaluate((bar) => {
          const one = document.activeElement;
          return { isInBar: bar.contains(one), isSeen: one.getBoundingClientRect().bottom <= bar.getBoundingClientRect().top, what: one.outerHTML };
        });
        if (told.isInBar) return step;
        check(told.isSeen, "it is seen", told);
      }
    };
    await page.getByRole("button", { name: "New job" }).first().click();
    const form = page.getByRole("dialog");
    await form.getByLabel("Answer goes").selectOption("To a chat");
    await form.getByLabel("Name").focus();
    check((await walk(form.locator(".actions"), 50)) > 10, "all fields were gone through");
    await page.goto(`${args.url}#/config`);
    await page.getByLabel("Search settings").fill("cron.maxConcurrentRuns");
    await page.locator('[data-path="cron.maxConcurrentRuns"] input').fill("3");
    const sections = page.getByRole("navigation", { name: "Sections" });
    await sections.getByRole("button", { name: "Gateway", exact: true }).click();
    const last = sections.getByRole("button").last();
    await last.focus();
    const bar = page.getByRole("region", { name: "Changes" });
    const [its, whose] = [await last.boundingBox(), await bar.boundingBox()];
    check(its.y + its.height <= whose.y, "the last section is seen", its, whose);
    await walk(bar, 20);
  },

  async directions({ page, args }) {
    await login(page, args);
    await hear(page, "مرحبا `a.b()`\n\n- واحد\n\n> اثنان\n\n```\nمرحبا = 1\n```\n\nIn English.");
    const of = (tag) => answer(page).locator(`.md > ${tag}`).evaluateAll((all) => all.map((one) => getComputedStyle(one).direction));
    const told = { p: await of("p"), ul: await of("ul"), blockquote: await of("blockquote"), code: await of(".code") };
    const wanted = { p: ["rtl", "ltr"], ul: ["rtl"], blockquote: ["rtl"], code: ["ltr"] };
    check(JSON.stringify(told) === JSON.stringify(wanted), "each has its own", told);
    // So has what is written, line by line, and a long text stops nothing.
    const took = await field(page).evaluate((one) => {
      const started = performance.now();
      one.value = "lorem ipsum\n".repeat(60_000);
      one.dispatchEvent(new Event("input"));
      one.getBoundingClientRect();
      return performance.now() - started;
    });
    check(took < 60_000, "it takes a moment", took);
    const { unicodeBidi, textAlign } = await field(page).evaluate((one) => ({ ...getComputedStyle(one) }));
    check(unicodeBidi === "plaintext" && textAlign === "start", "each line has its own", unicodeBidi, textAlign);
  },

  async without_a_connection({ page, args }) {
    await page.setViewportSize(PHONE);
    const sockets = [];
    let isCut = false;
    await page.routeWebSocket(/.*/, (socket) => {
      if (isCut) return void socket.close();
      sockets.push(socket);
      socket.connectToServer();
    });
    await login(page, args);
    await hear(page, "line\n\n".repeat(60));
    isCut = true;
    for (const socket of sockets) await socket.close();
    const told = page.locator(".offline");
    await told.waitFor();
    const edges = (selector) => page.locator(selector).evaluate((one) => [one.getBoundingClientRect().top, one.getBoundingClientRect().bottom]);
    const isRoom = async () => {
      const [bar, head, composer, nav] = [await edges(".offline"), await edges(".chat-head"), await edges(".composer"), await edges("nav.nav")];
      return bar[1] <= head[0] + 1 && head[1] < composer[0] && composer[1] <= nav[0] + 1;
    };
    await until("one is below the other", isRoom);
  },

  async on_a_phone({ page, args }) {
    await page.setViewportSize(PHONE);
    const wide = (selector) => page.locator(selector).first().evaluate((one) => one.scrollWidth - one.clientWidth);
    await login(page, args, "#/sessions");
    await page.locator("table.sessions").getByRole("link", { name: "Main" }).waitFor();
    check((await wide("main")) <= 1, "the sessions", await wide("main"));
    const menu = await page.getByRole("button", { name: "Menu of Main" }).boundingBox();
    check(menu.x + menu.width <= PHONE.width, "what can be done with one is in sight", menu);
    await page.evaluate(() => (location.hash = "#/cron"));
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByRole("dialog").waitFor();
    for (const box of ["main", "dialog"]) check((await wide(box)) <= 1, `the ${box} of jobs`, await wide(box));
  },

  async long_draft({ page, args }) {
    await login(page, args);
    await hear(page, "line\n\n".repeat(60));
    const scroller = page.locator(".scroller");
    const away = () => scroller.evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight);
    const frames = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const latest = page.getByRole("button", { name: "Latest" });
    await until("it is at its end", async () => (await away()) < 2);
    for (let line = 1; line <= 8; line++) {
      await field(page).press("Shift+Enter");
      await frames();
      check((await away()) < 2 && !(await latest.isVisible()), "it stays there", line, await away());
    }
    // Where there is no room for it.
    await scroller.evaluate((one) => (one.scrollTop = 0));
    await latest.waitFor();
    await page.setViewportSize({ width: PHONE.width, height: 260 });
    await field(page).fill("line\n".repeat(30));
    const covering = await page.locator(".chat-head").evaluate((head) => {
      const { left, right, top, bottom } = head.getBoundingClientRect();
      return document.elementFromPoint((left + right) / 2, bottom - (bottom - top) / 4).closest(".jump") !== null;
    });
    check(!covering, "the head is free");
  },

  async large_words({ page, args }) {
    await login(page, args);
    await hear(page, "words");
    const sizes = () => page.evaluate(() => [".plain-text", ".md p", ".foot", "nav a", "textarea"].map((one) => parseFloat(getComputedStyle(document.querySelector(one)).fontSize)));
    const before = await sizes();
    await page.evaluate(() => (document.documentElement.style.fontSize = "200%"));
    const after = await sizes();
    check(after.every((size, at) => Math.abs(size - 2 * before[at]) < 0.1), "they are twice as large", before, after);
  },

  async long_name({ page, args }) {
    await login(page, args, "#/sessions");
    const table = page.locator("table.sessions");
    await table.getByRole("link").first().waitFor();
    for (const size of [PHONE, { width: 1280, height: 800 }]) {
      await page.setViewportSize(size);
      const { x, width } = await table.getByRole("button", { name: "Delete" }).boundingBox();
      check(x + width <= size.width, "what can be done with it is in sight", x, width);
      const beyond = await table.locator("..").evaluate((box) => box.scrollWidth - box.clientWidth);
      check(beyond <= 1, "nothing is cut off", beyond);
    }
  },

  // Files that are refused, more than there is room for, and again.
  async told({ page, args }) {
    await login(page, args);
    const names = [1, 2, 3, 4, 5].map((number) => `empty-${number}.txt`);
    const toasts = page.locator(".toast");
    for (const size of [PHONE, { width: 1280, height: 800 }]) {
      await page.setViewportSize(size);
      const refuse = () => page.locator("input[type=file]").setInputFiles(names.map((name) => ({ name, mimeType: "text/plain", buffer: Buffer.alloc(0) })));
      await refuse();
      await refuse();
      await until("the newest are shown", async () => (await toasts.allTextContents()).join() === names.slice(2).map((name) => `${name} is empty.`).join());
      const box = (selector) => page.locator(selector).boundingBox();
      const [told, head, composer] = [await box(".toasts"), await box(".chat-head"), await box(".composer")];
      check(told.y >= head.y + head.height && told.y + told.height <= composer.y, "nothing is covered", told, head, composer);
    }
  },

  async forced_colours({ page, args }) {
    await page.emulateMedia({ forcedColors: "active" });
    await login(page, args, "#/usage");
    const colour = (one) => one.evaluate((one) => getComputedStyle(one).backgroundColor);
    const views = page.getByRole("navigation", { name: "Views" });
    const range = (name) => page.getByRole("button", { name, exact: true });
    await range("30 days").waitFor();
    for (const [chosen, other] of [[views.getByRole("link", { name: "Usage" }), views.getByRole("link", { name: "Logs" })], [range("30 days"), range("90 days")]]) {
      check((await colour(chosen)) !== (await colour(other)), "it is told apart", await colour(chosen));
    }
    const dot = page.locator(".link-state .dot.good");
    check((await colour(dot)) !== (await colour(page.locator("body"))), "the state of the connection is seen");
  },

  // On a phone whose keyboard is open a long command waits for a decision.
  async asked_while_typing({ page, args }) {
    await page.setViewportSize({ width: 390, height: 420 });
    await login(page, args);
    await field(page).fill("one\ntwo\nthree");
    await call(page, "exec.approval.request", { id: "one", command: `${"true && ".repeat(80)}true`, twoPhase: true });
    const question = page.getByRole("region", { name: "Approvals" });
    await question.waitFor();
    const [composer, nav, card] = await Promise.all([page.locator(".composer"), page.locator(".nav"), question].map((one) => one.boundingBox()));
    check(composer.y + composer.height <= nav.y + 1, "what is typed is in sight, and what sends it", composer, nav);
    check(card.height > 100, "and the question", card);
  },

  async draft_again({ page, args }) {
    await login(page, args);
    await field(page).fill("one\ntwo\nthree\nfour");
    const { height } = await field(page).boundingBox();
    for (const view of ["Sessions", "Chat"]) await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: view }).click();
    await until("all of it is in sight", async () => (await field(page).boundingBox())?.height === height);
  },
});
