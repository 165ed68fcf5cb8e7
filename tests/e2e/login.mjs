// A browser that opens a login link, goes on, comes back and signs out.
//
// args: {url, code, inside, leave, before}
//   url     the link
//   code    what is to be seen nowhere
//   inside  a selector of what is shown once it is in
//   leave   {at, button, then}: the page that signs out, if it is another one, the
//           name of its button, and a selector of what is shown after that
//   before  {local, session}: what the browser has of an earlier time
// Returns {href, historyLength, historyState, referrer, entries, stored, isBack,
// reloaded, again, elsewhere, left, seen}: where it arrived and what a script could
// read there, whether going back leads to before the link, what loading again
// shows, what the same link says in this browser and in another one, what could be
// read after signing out, and where the code was seen.
export default async function ({ page, context, args }) {
  const { url, code, inside, leave, before: known } = args;
  const seen = [];
  const note = (what, text) => text?.includes(code) && seen.push(`${what}: ${text}`);
  const listen = (page) => {
    page.on("request", (request) => {
      // What the address bar was given is not what goes over the wire.
      note("request", request.url().split("#")[0]);
      note("body", request.postData() ?? "");
      for (const [name, value] of Object.entries(request.headers())) note(name, value);
    });
    page.on("console", (message) => note("console", message.text()));
  };
  listen(page);

  if (known) {
    await page.goto(new URL("/clawgate/icon.svg", url).href);
    await page.evaluate(({ local, session }) => {
      for (const [name, value] of Object.entries(local)) localStorage.setItem(name, value);
      for (const [name, value] of Object.entries(session)) sessionStorage.setItem(name, value);
    }, known);
  }
  const first = page.url();
  await page.goto(url);
  await page.locator(inside).first().waitFor();
  await page.waitForFunction(() => !location.pathname.endsWith("/login"));
  const told = await page.evaluate(look);
  const before = page.url();
  await page.goBack();
  told.isBack = page.url() === first;
  await page.goto(before);
  await page.locator(inside).first().waitFor();
  await page.reload();
  await page.locator(inside).first().waitFor();
  told.reloaded = page.url();

  // In a tab of its own: what is between two addresses that differ in their
  // fragments only is no navigation.
  told.again = await refused(await context.newPage());
  const other = await context.browser().newContext();
  told.elsewhere = await refused(await other.newPage());
  await other.close();

  if (leave.at) await page.goto(leave.at);
  await page.getByRole("button", { name: leave.button }).click();
  await page.locator(leave.then).waitFor();
  await page.reload();
  await page.locator(leave.then).waitFor();
  told.left = await page.evaluate(look);
  note("stored", JSON.stringify(told));
  return { ...told, seen };

  async function refused(other) {
    listen(other);
    await other.goto(url);
    const card = other.locator(".card[data-refusal]");
    await card.waitFor();
    const result = { href: other.url(), refusal: await card.getAttribute("data-refusal"), text: await card.innerText() };
    await other.close();
    return result;
  }
}

// Runs in the page: all that a script of this origin could read.
async function look() {
  const stored = { local: { ...localStorage }, session: { ...sessionStorage }, cookie: document.cookie, databases: {} };
  for (const { name } of await indexedDB.databases()) {
    const open = indexedDB.open(name);
    await new Promise((resolve) => (open.onsuccess = resolve));
    for (const store of open.result.objectStoreNames) {
      const objects = open.result.transaction(store).objectStore(store);
      const [keys, values] = [objects.getAllKeys(), objects.getAll()];
      await new Promise((resolve) => (values.onsuccess = resolve));
      // A key that cannot be exported is nothing but what it says of itself.
      const plain = (name, value) => (value instanceof CryptoKey ? { extractable: value.extractable } : value);
      const shown = values.result.map((value) => JSON.parse(JSON.stringify(value, plain)));
      stored.databases[`${name}.${store}`] = keys.result.map((key, index) => [key, shown[index]]);
    }
    open.result.close();
  }
  return {
    href: location.href,
    historyLength: history.length,
    historyState: history.state,
    referrer: document.referrer,
    entries: performance.getEntries().map((entry) => entry.name),
    stored,
  };
}
