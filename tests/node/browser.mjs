// Runs modules of steps in a real Chromium, and prints what they return as JSON.
//
// stdin, a line for each run: {id, chromium, steps, args, pages, names, trusted, limitMs}
//   id        names the answer to it
//   chromium  path of the program
//   steps     path of a module whose default export is called with
//             {page, context, args}
//   args      what the steps are told
//   pages     {url: html}: pages of any origin that nobody has to serve
//   names     host names that lead to this machine
//   trusted   PEM files; their certificates are believed, whoever signed them
//   limitMs   after this the page is closed and the steps have failed
// stdout, a line for each: {id, said, result} or {id, said, error}
//   said      what pages printed, and their errors
// Runs have nothing in common but the program that shows their pages; those with names or
// certificates of their own have one for themselves. Whatever else it asks for by name is
// not found: it reaches this machine only. At the end of stdin everything is closed.
import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
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

// What is slow on a busy machine is not wrong: the limit is that of all steps.
function launch(wanted) {
  const timeout = wanted.limitMs / 2;
  return chromium.launch({ executablePath: wanted.chromium, args: flags(wanted), timeout });
}

let shared;

async function run(wanted, said) {
  const isPlain = wanted.names.length + wanted.trusted.length === 0;
  const browser = await (isPlain ? (shared ??= launch(wanted)) : launch(wanted));
  // What moves is drawn over and over, by all cores.
  const context = await browser.newContext({ reducedMotion: "reduce" });
  const play = async () => {
    context.setDefaultTimeout(wanted.limitMs / 2);
    await open(context, wanted.pages);
    const page = await context.newPage();
    page.on("console", (message) => said.push(`page: ${message.text()}`));
    page.on("pageerror", (error) => said.push(`page: ${error}`));
    const steps = (await import(pathToFileURL(wanted.steps))).default;
    return steps({ page, context, args: wanted.args });
  };
  let late;
  const limit = new Promise((_, fail) => {
    const error = new Error(`the steps took longer than ${wanted.limitMs} ms`);
    late = setTimeout(() => fail(error), wanted.limitMs);
  });
  try {
    return await Promise.race([play(), limit]);
  } finally {
    clearTimeout(late);
    await (isPlain ? context : browser).close();
  }
}

async function answer(wanted) {
  const said = [];
  const told = await run(wanted, said).then(
    (result) => ({ result: result ?? null }),
    (error) => ({ error: error.stack ?? String(error) }),
  );
  process.stdout.write(`${JSON.stringify({ id: wanted.id, said, ...told })}\n`);
}

createInterface({ input: process.stdin })
  .on("line", (line) => answer(JSON.parse(line)))
  .on("close", () => process.exit());
