"use strict";
// Text reaches the page as text alone (textContent): what a file or a client calls itself is never markup.
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const MOST = 600, WIDTH = 320, HEIGHT = 96;

function make(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside.map((x) => (x instanceof Node ? x : String(x))));
  return element;
}
function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
const short = (x) => x === null || x === undefined ? "-"
  : Math.abs(x) >= 1e9 ? (x / 1e9).toFixed(1) + " G" : Math.abs(x) >= 1e6 ? (x / 1e6).toFixed(1) + " M"
  : Math.abs(x) >= 1e4 ? (x / 1e3).toFixed(1) + " k" : Number.isInteger(x) ? String(x) : x.toFixed(x < 10 ? 2 : 1);
const seconds = (ms) => (ms / 1000).toFixed(1) + " s";

// --- lines over time, or over a slider ---

function lines(x, rows, { low, high, ends }) {
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const across = (v) => 2 + (WIDTH - 4) * (v - x[0]) / (x[x.length - 1] - x[0] || 1);
  const up = (v) => HEIGHT - 16 - (HEIGHT - 28) * (v - low) / (high - low || 1);
  picture.append(draw("path", { class: "axis", d: `M2 ${up(low)}H${WIDTH - 2}M2 ${up(high)}H${WIDTH - 2}` }));
  for (const [kind, values] of rows) {
    let path = "", pen = "M";
    values.forEach((v, i) => {
      if (v === null || v === undefined) { pen = "M"; return; }
      path += `${pen}${across(x[i]).toFixed(1)} ${up(v).toFixed(1)}`;
      pen = "L";
    });
    picture.append(draw("path", { class: kind, d: path || "M0 0" }));
  }
  picture.append(draw("text", { x: 4, y: 9 }, short(high)), draw("text", { x: 2, y: HEIGHT - 3 }, ends[0]));
  picture.append(draw("text", { x: WIDTH - 2, y: HEIGHT - 3, "text-anchor": "end" }, ends[1]));
  return { picture, across };
}

// --- the fleet ---

const CHARTS = [
  ["throughput", "items a second", [["answered_rate", "answered"], ["accepted_rate", "accepted"]]],
  ["latency", "ms, accepted to answered", [["p50_ms", "median"], ["p95_ms", "95 %"]]],
  ["queue", "items", [["queued", "waiting"], ["open", "open"]]],
  ["credit", "bytes in use", [["credit_bytes", "by clients"], ["retained_bytes", "retained"]]],
];
let samples = [], number = 0;

function chart([name, unit, fields]) {
  const caption = make("figcaption", {}, make("span", {}, `${name}, ${unit}`));
  const values = fields.map(([field]) => samples.map((s) => s[field]));
  const last = make("span");
  fields.forEach(([field, label], i) => {
    const now = make("b", { id: field }, short(samples[samples.length - 1]?.[field]));
    last.append(make("span", { class: i ? "key-two" : "key-one" }, `${label} `), now, " ");
  });
  caption.append(last);
  const high = Math.max(1, ...values.flat().filter((v) => Number.isFinite(v)));
  const x = samples.map((s) => s.at);
  const ago = x.length ? `${Math.round(x[x.length - 1] - x[0])} s ago` : "";
  const rows = [["two", values[1]], ["one", values[0]]];
  return make("figure", { id: `chart-${name}` }, caption, lines(x, rows, { low: 0, high, ends: [ago, "now"] }).picture);
}
function fill(table, rows) {
  const body = table.tBodies[0];
  body.replaceChildren(...rows.map((row) => make("tr", {}, ...row.map((cell) => cell instanceof Node ? cell : make("td", {}, cell)))));
  table.hidden = !rows.length;
}
function options(select, names, first) {
  const wanted = JSON.stringify(names);
  if (select.dataset.names === wanted) return;
  const before = select.value;
  select.dataset.names = wanted;
  select.replaceChildren(...first, ...names.map((name) => make("option", {}, name)));
  if (names.includes(before)) select.value = before;
}
function show(told) {
  const now = told.standing, last = samples[samples.length - 1];
  $("charts").replaceChildren(...CHARTS.map(chart));
  const silent = last && last.error;
  $("summary").classList.toggle("bad", Boolean(silent));
  if (!now.banks) { $("summary").textContent = silent ? `no answer from the broker: ${last.error}` : "asking the fleet ..."; return; }
  $("summary").textContent = silent ? `no answer from the broker: ${last.error}; what it said last:`
    : `${now.draining ? "draining" : "up"} ${Math.round(now.uptime_s)} s, accepted ${now.accepted}, answered ${now.answered}, `
      + `${now.n_workers} workers, ${now.n_clients} clients`;
  const name = Object.fromEntries(Object.entries(now.banks).map(([bank, hash]) => [hash, bank]));
  const serves = (stage) => stage.replace(/[0-9a-f]{32,64}/, (hash) => name[hash] || hash.slice(0, 12));
  fill($("workers"), now.workers.map((w) => [w.name, w.kind, make("td", { class: w.state }, w.state),
    w.stages.map(serves).join(", "), w.banks.join(", "), w.leased, short(w.leased_bytes), w.tasks, seconds(w.silent_ms)]));
  fill($("banks"), Object.entries(now.banks).map(([bank, hash]) => [bank, hash.slice(0, 12)]));
  fill($("queues"), now.queues.map((q) => [serves(q.stage), q.queued]));
  fill($("clients"), now.clients.map((c) => [c.software, c.open, short(c.open_bytes), seconds(c.silent_ms)]));
  const wrong = Object.entries({ ...now.failed, ...now.refused, ...now.turned_away, redelivered: now.redelivered, "workers lost": now.workers_lost });
  $("failures").textContent = wrong.filter(([, n]) => n).map(([what, n]) => `${what} ${n}`).join(", ") || "no failures";
  $("recent").replaceChildren(...(now.recent || []).slice().reverse().map((note) => make("li", {}, `${Math.round(note.ago_s)} s ago: ${note.what}`)));
  fill($("letters"), told.letters.slice().reverse().map((l) => [l.item || "-", new Date(1000 * l.at).toLocaleString(), l.route.join(" > "), l.reason]));
  options($("bank"), Object.keys(now.banks), [make("option", { value: "" }, "the first that takes it")]);
  $("orders").hidden = !told.orders;
  options($("worker"), now.workers.map((w) => w.name), []);
}
async function look() {
  try {
    const answer = await fetch(`api/state?since=${number}`);
    if (answer.ok) {
      const told = await answer.json();
      if (told.number < number) samples = [];
      number = told.number;
      samples = samples.concat(told.samples).slice(-MOST);
      show(told);
    }
  } catch {
    $("summary").classList.add("bad");
    $("summary").textContent = "the page's server does not answer";
  }
  setTimeout(look, 1000);
}

// --- orders ---

for (const button of document.querySelectorAll("#orders button")) {
  button.addEventListener("click", async () => {
    const act = button.dataset.act, order = act === "reload" ? { act } : { act, worker: $("worker").value };
    const answer = await fetch("api/order", { method: "POST", body: JSON.stringify(order),
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${$("key").value}` } });
    const told = await answer.json();
    $("ordered").textContent = told.error ? told.error.reason : `${act}: ${told.workers.join(", ")}`;
  });
}

// --- try it ---

let file = null, unmoved = null, turn = 0;

async function send(what, query) {
  const answer = await fetch(`api/${what}?${new URLSearchParams({ name: file.name, bank: $("bank").value, ...query })}`,
    { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } });
  const told = await answer.json();
  if (told.error) throw new Error(told.error.reason);
  return told;
}
async function attempt(dropped) {
  file = dropped;
  const mine = ++turn;
  $("said").className = "";
  $("said").textContent = `${file.name} ...`;
  try {
    const told = await send("try", {});
    if (mine !== turn) return;
    unmoved = told.profile;
    $("said").textContent = `${told.name}: bank ${told.bank}`;
    $("answer").hidden = false;
    sliders(told.moves);
    answered(told);
    const first = Object.keys(told.moves)[0];
    if (first) await curve(first, mine);
  } catch (error) { complain(error); }
}
function complain(error) {
  $("said").className = "bad";
  $("said").textContent = error.message;
}
function answered(told) {
  $("picture").src = told.picture;
  $("about").textContent = told.about;
  $("sound").hidden = !told.sound;
  if (told.sound) $("sound").src = told.sound;
  $("classes").replaceChildren(...told.models.map((m) => {
    const low = Math.min(0, ...m.scores.map(([, s]) => s)), high = Math.max(...m.scores.map(([, s]) => s), low + 1e-6);
    return make("div", { class: "model" }, make("p", {}, make("span", { class: "label" }, m.label), ` by ${m.model}`),
      ...m.scores.map(([label, s]) => make("div", { class: "score" }, make("span", {}, label), make("meter", { min: low, max: high, value: s }), make("span", {}, s.toFixed(3)))));
  }));
  if (!told.models.length) $("classes").textContent = "no model of this bank is fitted yet";
  const found = told.indexes.map((x) => make("div", {}, make("p", {}, `index ${x.index}, ${x.n_items} entries`),
    make("div", { class: "near" }, ...x.neighbours.map((n) => make("figure", {}, make("b", {}, n.label ?? "-"), ` entry ${n.id}, at ${n.distance.toFixed(3)}`)))));
  if (told.gallery.length) {
    found.unshift(make("div", { class: "near", id: "gallery" }, ...told.gallery.map((n) => make("figure", {},
      make("img", { src: n.thumbnail, alt: n.name }), make("b", {}, n.label ?? "-"), ` ${n.name}, at ${n.distance.toFixed(3)}`))));
  }
  $("nearest").replaceChildren(...found);
  if (!found.length) $("nearest").textContent = "no index of this bank, and no corpus was given to the page";
  $("closeness").textContent = told.cosine === undefined ? "" : `cosine with the unmoved feature: ${told.cosine.toFixed(4)}`;
  strips(told.profile);
}
function strips(now) {
  const canvas = $("profile"), pen = canvas.getContext("2d"), wide = canvas.width / now.length;
  const high = Math.max(...unmoved.map(Math.abs), 1e-9);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  [unmoved, now].forEach((row, n) => row.forEach((v, i) => {
    pen.fillStyle = `hsl(${v < 0 ? 215 : 24} 75% ${Math.round(95 - 60 * Math.min(1, Math.abs(v) / high))}%)`;
    pen.fillRect(i * wide, n * 30, Math.ceil(wide), 26);
  }));
}
function sliders(moves) {
  $("sliders").replaceChildren(...Object.entries(moves).map(([move, [low, high, still, unit]]) => {
    const logs = move === "tempo", to = (v) => logs ? Math.log2(v) : v, from = (v) => logs ? 2 ** v : v;
    const slider = make("input", { type: "range", id: `slide-${move}`, "data-still": to(still), min: to(low), max: to(high), step: (to(high) - to(low)) / 120, value: to(still) });
    const said = make("output");
    const say = () => { said.textContent = `${short(from(Number(slider.value)))} ${unit}`; };
    slider.addEventListener("input", say);
    say();
    slider.addEventListener("change", async () => {
      const mine = ++turn, value = from(Number(slider.value));
      // logarithms and steps round: the ends stay the ends
      const amount = Math.abs(value - still) < (high - low) / 250 ? still : Math.min(high, Math.max(low, value));
      try {
        const told = await send("try", { move, amount });
        if (mine !== turn) return;
        for (const other of document.querySelectorAll("#sliders input")) if (other !== slider && other.value !== other.dataset.still) { other.value = other.dataset.still; other.dispatchEvent(new Event("input")); }
        answered(told);
        await curve(move, mine, amount);
      } catch (error) { complain(error); }
    });
    return make("label", {}, move, slider, said);
  }));
}
const curves = new Map();
async function curve(move, mine, amount) {
  const known = `${file.name} ${file.size} ${file.lastModified} ${$("bank").value} ${move}`;
  if (!curves.has(known)) {
    if (curves.size > 16) curves.clear();
    curves.set(known, await send("curve", { move }));
  }
  if (mine !== turn) return;
  const told = curves.get(known), rows = [["two", told.input], ["one", told.feature]];
  const caption = make("figcaption", {}, make("span", {}, `cosine with the unmoved, over ${move}: `,
    make("span", { class: "key-one" }, "feature "), make("span", { class: "key-two" }, "input ")));
  if (told.others.length) {
    const middle = told.others[Math.floor(told.others.length / 2)];
    rows.unshift(["others", told.amounts.map(() => middle)]);
    caption.append(make("span", { class: "key-others" }, "nearest of the corpus"));
  }
  const low = Math.min(0, ...told.input, ...told.feature);
  const ends = [short(told.amounts[0]), short(told.amounts[told.amounts.length - 1])];
  const { picture, across } = lines(told.amounts, rows, { low, high: 1, ends });
  if (amount !== undefined) picture.append(draw("path", { class: "mark", d: `M${across(amount)} 12V${HEIGHT - 16}` }));
  $("curve").replaceChildren(make("figure", {}, caption, picture));
  if (told.model) $("curve").append(make("p", {}, `class by ${told.model}: ${told.labels.join(" ")}`));
}

$("file").addEventListener("change", () => { if ($("file").files.length) attempt($("file").files[0]); });
for (const name of ["dragenter", "dragover"]) $("drop").addEventListener(name, (event) => { event.preventDefault(); $("drop").classList.add("over"); });
for (const name of ["dragleave", "drop"]) $("drop").addEventListener(name, (event) => { event.preventDefault(); $("drop").classList.remove("over"); });
$("drop").addEventListener("drop", (event) => { if (event.dataTransfer.files.length) attempt(event.dataTransfer.files[0]); });
$("bank").addEventListener("change", () => { if (file) attempt(file); });

// --- recording: whatever the browser records in, decoded by it, sent as WAV ---

function wav(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, word) => [...word].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + 2 * samples.length, true); text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  text(36, "data"); view.setUint32(40, 2 * samples.length, true);
  samples.forEach((x, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, x)) * 32767, true));
  return view.buffer;
}
let recorder = null;
$("record").addEventListener("click", async () => {
  if (recorder) { recorder.stop(); return; }
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const pieces = [];
    recorder = new MediaRecorder(stream);
    recorder.ondataavailable = (event) => pieces.push(event.data);
    recorder.onstop = async () => {
      stream.getTracks().forEach((track) => track.stop());
      recorder = null;
      $("record").textContent = "record";
      try {
        const context = new AudioContext({ sampleRate: 16000 });
        const sound = await context.decodeAudioData(await new Blob(pieces).arrayBuffer());
        await context.close();
        await attempt(new File([wav(sound.getChannelData(0), sound.sampleRate)], "recording.wav"));
      } catch (error) { complain(error); }
    };
    recorder.start();
    $("record").textContent = "stop";
    setTimeout(() => recorder && recorder.stop(), 10000);
  } catch (error) { complain(error); }
});
look();
