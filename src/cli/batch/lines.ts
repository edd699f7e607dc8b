/** Splits JSON lines into views of the input's bytes, so that large inputs are not copied. */

const LINE_END = 0x0a

export interface Line {
  /** Its position among the lines that are not empty, from 0. */
  readonly index: number
  /** Its line number in the file, from 1. */
  readonly number: number
  readonly bytes: Buffer
}

export function splitLines(input: Buffer): readonly Line[] {
  const lines: Line[] = []
  for (let start = 0, number = 1; start < input.length; number++) {
    const found = input.indexOf(LINE_END, start)
    const end = found === -1 ? input.length : found
    const bytes = input.subarray(start, end)
    if (!isBlank(bytes)) lines.push({ index: lines.length, number, bytes })
    start = end + 1
  }
  return lines
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)
}
