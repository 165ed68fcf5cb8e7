// Our own page below a path of another server.
//
// args: {page, token}
//   page   its URL, without the last slash
//   token  what is typed
// Returns {url, sockets}: where it has got to, and the WebSockets that it opened
// after it was loaded again.
export default async function ({ page, args }) {
  const connected = page.getByText("Connected", { exact: true });
  await page.goto(args.page);
  await page.getByLabel("Gateway token").fill(args.token);
  await page.getByRole("button", { name: "Connect" }).click();
  await page.getByRole("heading", { name: "Waiting for approval" }).waitFor();
  await connected.waitFor();
  const sockets = [];
  page.on("websocket", (socket) => sockets.push(socket.url()));
  await page.reload();
  await connected.waitFor();
  return { url: page.url(), sockets };
}
