// QR codes (ISO/IEC 18004): bytes, error correction L, versions 1 to 20, always
// mask 0, which every reader takes.

import { svg } from "../dom.js";

// For each version: codewords of correction in a block, and blocks.
const CORRECTION = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28];
const BLOCKS = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8];
// Level L and mask 0, with their check bits.
const FORMAT = 0x77c4;
const QUIET = 4;

// The field with 256 elements, by powers of its generator.
const POWER = [];
const LOG = [];
for (let i = 0, x = 1; i < 255; i++) {
  POWER[i] = x;
  LOG[x] = i;
  x = x & 128 ? (x << 1) ^ 0x11d : x << 1;
}
const times = (a, b) => (a && b ? POWER[(LOG[a] + LOG[b]) % 255] : 0);

// The remainder of a block, which repairs it.
function correction(block, count) {
  let divisor = [1];
  for (let i = 0; i < count; i++) divisor = [...divisor, 0].map((factor, at) => factor ^ times(divisor[at - 1] ?? 0, POWER[i]));
  const rest = new Array(count).fill(0);
  for (const byte of block) {
    const factor = byte ^ rest.shift();
    rest.push(0);
    divisor.slice(1).forEach((of, at) => (rest[at] ^= times(of, factor)));
  }
  return rest;
}

function alignments(version) {
  if (version === 1) return [];
  const last = version * 4 + 10;
  const count = Math.floor(version / 7) + 2;
  const step = Math.ceil((last - 6) / (count - 1) / 2) * 2;
  return [6, ...Array.from({ length: count - 1 }, (_, at) => last - at * step)];
}

// Codewords that a version holds.
function capacity(version) {
  const size = version * 4 + 17;
  const marks = alignments(version).length;
  const patterns = 192 + (marks ? (marks ** 2 - 3) * 25 - (marks - 2) * 2 * 5 : 0) + (size - 16) * 2 + 31 + (version >= 7 ? 36 : 0);
  return Math.floor((size ** 2 - patterns) / 8);
}

function codewords(bytes) {
  const room = (version) => capacity(version) - CORRECTION[version - 1] * BLOCKS[version - 1];
  let version = 1;
  while (room(version) < bytes.length + (version < 10 ? 2 : 3)) version++;
  const count = bytes.length.toString(2).padStart(version < 10 ? 8 : 16, "0");
  const bits = `0100${count}${[...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("")}0000`;
  const data = bits.match(/.{8}/g).map((byte) => Number.parseInt(byte, 2));
  for (let pad = 0xec; data.length < room(version); pad ^= 0xfd) data.push(pad);
  // The last blocks are longer by one when they do not come out even.
  const blocks = BLOCKS[version - 1];
  const short = Math.floor(data.length / blocks);
  const parts = Array.from({ length: blocks }, (_, at) => data.splice(0, short + (at >= blocks - (room(version) % blocks) ? 1 : 0)));
  const checks = parts.map((part) => correction(part, CORRECTION[version - 1]));
  const woven = (rows) => Array.from({ length: Math.max(...rows.map((row) => row.length)) }, (_, at) => rows.map((row) => row[at])).flat();
  return { version, all: [...woven(parts), ...woven(checks)].filter((byte) => byte !== undefined) };
}

// Rows of modules: true is dark.
export function modules(text) {
  const { version, all } = codewords(new TextEncoder().encode(text));
  const size = version * 4 + 17;
  const grid = Array.from({ length: size }, () => new Array(size));
  const square = (x, y, radius, isDark) => {
    for (let dy = -radius; dy <= radius; dy++) {
      for (let dx = -radius; dx <= radius; dx++) {
        if (grid[y + dy] && x + dx >= 0 && x + dx < size) grid[y + dy][x + dx] = isDark(Math.max(Math.abs(dx), Math.abs(dy)));
      }
    }
  };
  for (let at = 0; at < size; at++) grid[6][at] = grid[at][6] = at % 2 === 0;
  const marks = alignments(version);
  for (const x of marks) for (const y of marks) if (!(x + y === 12 || (x === 6 && y === size - 7) || (y === 6 && x === size - 7))) square(x, y, 2, (away) => away !== 1);
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) square(x, y, 4, (away) => away !== 2 && away !== 4);
  const format = (at) => Boolean((FORMAT >> at) & 1);
  for (let at = 0; at < 15; at++) {
    grid[at < 6 ? at : at < 8 ? at + 1 : size - 15 + at][8] = format(at);
    grid[8][at < 8 ? size - 1 - at : at < 9 ? 7 : 14 - at] = format(at);
  }
  grid[size - 8][8] = true;
  if (version >= 7) {
    let check = version;
    for (let i = 0; i < 12; i++) check = (check << 1) ^ ((check >> 11) * 0x1f25);
    const told = (version << 12) | check;
    for (let at = 0; at < 18; at++) {
      const [x, y] = [size - 11 + (at % 3), Math.floor(at / 3)];
      grid[y][x] = grid[x][y] = Boolean((told >> at) & 1);
    }
  }
  let bit = 0;
  for (let right = size - 1; right > 0; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++) {
      const y = (right + 1) & 2 ? step : size - 1 - step;
      for (const x of [right, right - 1]) {
        if (grid[y][x] !== undefined) continue;
        const isSet = Boolean((all[bit >> 3] >> (7 - (bit & 7))) & 1);
        grid[y][x] = isSet !== ((x + y) % 2 === 0);
        bit++;
      }
    }
  }
  return grid;
}

// A picture of it, dark on light whatever the theme is: readers want it so.
export function qr(text, title) {
  const grid = modules(text);
  const size = grid.length + 2 * QUIET;
  const path = grid.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : ""))).join("");
  return svg("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": title, "shape-rendering": "crispEdges" }, svg("path", { d: path }));
}
