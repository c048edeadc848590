// Reads a file of pprof with the package `pprof-format`, and prints it as JSON: the types of the
// values, and of each sample the location, the values and the labels.
//
// Usage: node read.mjs FILE

import fs from "node:fs";
import { Profile } from "pprof-format";

const profile = Profile.decode(fs.readFileSync(process.argv[2]));
const text = (index) => profile.stringTable.strings[Number(index)];
const byId = (items) => new Map(items.map((item) => [Number(item.id), item]));
const locations = byId(profile.location), functions = byId(profile.function);

/// Returns the function, file, line and column of a location. It has one line, because nothing is
/// inlined.
function position(id) {
  const { line: [line] } = locations.get(Number(id));
  const { name, filename } = functions.get(Number(line.functionId));
  return [text(name), text(filename), Number(line.line), Number(line.column)];
}

console.log(JSON.stringify({
  types: profile.sampleType.map(({ type, unit }) => [text(type), text(unit)]),
  default: text(profile.defaultSampleType),
  samples: profile.sample.map(({ locationId, value, label }) => ({
    position: locationId.map(position),
    values: value.map(Number),
    labels: Object.fromEntries(label.map(({ key, str }) => [text(key), text(str)])),
  })),
}));
