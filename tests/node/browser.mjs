// Runs a module of steps in a real Chromium, and prints what it returns as JSON.
//
// stdin: {chromium, steps, args, pages, names, trusted, limitMs}
//   chromium  path of the program
//   steps     path of a module whose default export is called with
//             {page, context, browser, args}
//   args      what the steps are told
//   pages     {url: html}: pages of any origin that nobody has to serve
//   names     host names that lead to this machine
//   trusted   PEM files; their certificates are believed, whoever signed them
//   limitMs   after this the browser is closed and the steps have failed
// Whatever else the browser asks for by name is not found: it reaches this
// machine only. What pages print, and their errors, go to stderr.
import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

// How the browser names the key of a certificate that it shall believe.
function pin(path) {
  const key = new X509Certificate(readFileSync(path)).publicKey;
  const spki = key.export({ type: "spki", format: "der" });
  return createHash("sha256").update(spki).digest("base64");
}

function flags({ names, trusted }) {
  const rules = [
    ...names.map((name) => `MAP ${name} 127.0.0.1`),
    "MAP * ~NOTFOUND",
    "EXCLUDE localhost",
    "EXCLUDE 127.0.0.1",
  ];
  const flags = [`--host-resolver-rules=${rules.join(", ")}`];
  if (trusted.length > 0) {
    flags.push(`--ignore-certificate-errors-spki-list=${trusted.map(pin).join(",")}`);
  }
  return flags;
}

// Chromium asks its user before a page from elsewhere may reach this machine.
// The answer here is yes, so that what the gateway says of it is seen.
const ASKED = ["local-network-access"];

function open(context, pages) {
  const serve = async ([url, body]) => {
    await context.route(url, (route) => route.fulfill({ contentType: "text/html", body }));
    await context.grantPermissions(ASKED, { origin: new URL(url).origin });
  };
  return Promise.all(Object.entries(pages).map(serve));
}

const wanted = JSON.parse(await text(process.stdin));
// What is slow on a busy machine is not wrong: the limit is that of all steps.
const timeout = wanted.limitMs / 2;
const browser = await chromium.launch({ executablePath: wanted.chromium, args: flags(wanted), timeout });
const late = setTimeout(() => {
  console.error(`the steps took longer than ${wanted.limitMs} ms`);
  process.exitCode = 1;
  browser.close();
}, wanted.limitMs);
try {
  const context = await browser.newContext();
  context.setDefaultTimeout(timeout);
  await open(context, wanted.pages);
  const page = await context.newPage();
  page.on("console", (message) => console.error(`page: ${message.text()}`));
  page.on("pageerror", (error) => console.error(`page: ${error}`));
  const steps = (await import(pathToFileURL(wanted.steps))).default;
  const result = await steps({ page, context, browser, args: wanted.args });
  process.stdout.write(JSON.stringify(result ?? null));
} finally {
  clearTimeout(late);
  await browser.close();
}
