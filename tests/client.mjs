// A client of streamfeat in Node.js: pictures in, features out. Usage: node client.mjs ENDPOINT FILE ROWS COLUMNS
// FILE holds pictures of ROWS x COLUMNS bytes one after the other. Prints a JSON line a picture, as they are answered.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const [endpoint, file, rows, columns] = process.argv.slice(2);
const shape = [Number(rows), Number(columns)];
const size = shape[0] * shape[1];
const pixels = readFileSync(file);
const waiting = Array.from({ length: pixels.length / size }, (_, id) => id); // to be sent
const asked = new Set(); // sent, not answered
const about = { protocol: [1, 1], role: "client", peer: randomBytes(8).toString("hex") };
const [PATIENCE_S, TRYING_S] = [10, 30];
const begun = Date.now();
let quietUntil = 0;

const socket = new Dealer({ linger: 500, receiveTimeout: 500 });
socket.connect(endpoint);
const say = (verb, header, payload = []) => socket.send(["SF1", verb, encode(header), ...payload]);

async function request({ credit, limits }) {
  while (Date.now() >= quietUntil && waiting.length && asked.size < credit.items) {
    const ids = waiting.splice(0, Math.min(32, limits.message_items, credit.items - asked.size));
    ids.forEach((id) => asked.add(id));
    const array = { dtype: "|u1", shape };
    const items = ids.map((id) => ({ id, signal: { kind: "image" }, arrays: [array] }));
    const payload = ids.map((id) => pixels.subarray(id * size, (id + 1) * size));
    await say("REQUEST", { route: ["features"], ttl_ms: 30000, items }, payload);
  }
}

function answer(item, feature) {
  if (!asked.delete(item.id)) return; // late, or twice
  if (item.ok) console.log(JSON.stringify({ id: item.id, sha256: createHash("sha256").update(feature).digest("hex") }));
  else if (["OVERLOADED", "UNAVAILABLE"].includes(item.error.code) && Date.now() < begun + 1000 * TRYING_S) {
    waiting.push(item.id); // no room, or the workers have not come back yet; the same id may be tried again
    quietUntil = Date.now() + (item.error.retry_after_ms ?? 250);
  } else console.log(JSON.stringify({ id: item.id, error: item.error }));
}

let terms = null;
let heard = Date.now();
for (let left = waiting.length; left > 0; left = waiting.length + asked.size) {
  if (terms === null) await say("HELLO", about);
  else await request(terms);
  const frames = await socket.receive().catch((error) => (error.code === "EAGAIN" ? null : Promise.reject(error)));
  if (Date.now() - heard > 1000 * PATIENCE_S) throw new Error(`${endpoint}: nothing heard for ${PATIENCE_S} s`);
  if (frames === null) {
    if (terms !== null) await say("PING", {}); // a broker that was started again answers HELLO_FIRST
    continue;
  }
  heard = Date.now();
  const [, verb, header, ...payload] = frames;
  const fields = decode(header);
  if (String(verb) === "WELCOME") {
    terms = fields;
    waiting.push(...asked); // a broker that was started again knows nothing of these
    asked.clear();
  } else if (String(verb) === "REPLY") {
    for (const item of fields.items) answer(item, Buffer.concat(payload.splice(0, (item.arrays ?? []).length)));
  } else if (String(verb) === "PING") await say("PONG", {});
  else if (fields.code === "HELLO_FIRST") terms = null;
  else if (String(verb) === "ERROR") throw new Error(`${fields.code}: ${fields.reason}`);
}
await say("BYE", { reason: "done" });
socket.close();
