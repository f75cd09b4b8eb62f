// SPDX-License-Identifier: MIT
// Usage: node wasm.mjs PROGRAM.wasm
// Run a program that was linked with wasm.c, and exit as it does.
import { readFileSync, writeSync } from 'node:fs'

const env = {
  write: (at, length) => writeSync(1, new Uint8Array(instance.exports.memory.buffer, at, length)),
  exit: status => process.exit(status),
}
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), { env })

instance.exports.run()
