// A push service and the browser behind it: takes messages over TLS, checks who
// sends them (RFC 8292) and reads them as a browser does (RFC 8291, RFC 8188).
// Arguments: certificate, key. Its first line is {port, p256dh, auth}; each
// further one is what came: {path, headers, token, valid, plain}.
import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

const [cert, key] = process.argv.slice(2).map((path) => readFileSync(path));
const say = (line) => console.log(JSON.stringify(line));
const from64 = (text) => Buffer.from(text, "base64url");

const browser = createECDH("prime256v1");
browser.generateKeys();
const auth = randomBytes(16);

function decrypt(body) {
  const salt = body.subarray(0, 16);
  const size = body.readUInt32BE(16);
  const length = body.readUInt8(20);
  const sender = body.subarray(21, 21 + length);
  const record = body.subarray(21 + length);
  if (record.length > size) throw new Error("the record is larger than it says");
  const shared = browser.computeSecret(sender);
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), browser.getPublicKey(), sender]);
  const keying = Buffer.from(hkdfSync("sha256", shared, auth, info, 32));
  const derive = (what, bytes) =>
    Buffer.from(hkdfSync("sha256", keying, salt, `Content-Encoding: ${what}\0`, bytes));
  const cipher = createDecipheriv("aes-128-gcm", derive("aes128gcm", 16), derive("nonce", 12));
  cipher.setAuthTag(record.subarray(-16));
  const plain = Buffer.concat([cipher.update(record.subarray(0, -16)), cipher.final()]);
  const end = plain.lastIndexOf(2);
  if (plain.subarray(end + 1).some((byte) => byte !== 0)) throw new Error("no last record");
  return plain.subarray(0, end).toString();
}

function checked(header) {
  const found = /^vapid t=([^,]+), k=(.+)$/.exec(header ?? "");
  if (!found) return { valid: false };
  const [, token, k] = found;
  const [head, claims, signature] = token.split(".");
  const point = from64(k);
  const jwk = { kty: "EC", crv: "P-256", x: point.subarray(1, 33).toString("base64url"), y: point.subarray(33).toString("base64url") };
  const publicKey = { key: createPublicKey({ key: jwk, format: "jwk" }), dsaEncoding: "ieee-p1363" };
  const valid = verify("sha256", Buffer.from(`${head}.${claims}`), publicKey, from64(signature));
  return { valid, token: JSON.parse(from64(claims)), head: JSON.parse(from64(head)), k };
}

const server = createServer({ cert, key }, (request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const { url: path, headers } = request;
    const status = { "/gone": 410, "/missing": 404, "/busy": 429 }[path] ?? 201;
    let plain;
    try {
      plain = decrypt(Buffer.concat(parts));
    } catch (error) {
      plain = `unreadable: ${error.message}`;
    }
    say({ path, headers, ...checked(headers.authorization), plain });
    if (path === "/away") response.writeHead(302, { location: "https://localhost:1/" });
    else response.writeHead(status);
    response.end();
  });
});
server.listen(0, "127.0.0.1", () => {
  const p256dh = browser.getPublicKey().toString("base64url");
  say({ port: server.address().port, p256dh, auth: auth.toString("base64url") });
});
