// Connects to a gateway over TLS with npm `ws`, believing one certificate, and
// prints the answer to `connect`. Arguments: URL, certificate, token.
import { readFileSync } from "node:fs";
import WebSocket from "ws";

const [url, certificate, token] = process.argv.slice(2);
const socket = new WebSocket(url, { ca: readFileSync(certificate) });

socket.on("message", (data) => {
  const frame = JSON.parse(data.toString());
  if (frame.event === "connect.challenge") {
    const client = { id: "gateway-client", version: "1", platform: "node", mode: "backend" };
    const params = { minProtocol: 3, maxProtocol: 3, client, role: "operator", auth: { token } };
    socket.send(JSON.stringify({ type: "req", id: "1", method: "connect", params }));
  } else if (frame.type === "res") {
    console.log(JSON.stringify(frame));
    socket.close();
  }
});
socket.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
