/**
 * Finds the JSON in a model's text: skips the thoughts before it, and the prose and the code fence around it, which models
 * add despite their instructions. In linear time, whatever the model wrote.
 */

/** Start and end of a text that may be the JSON, without surrounding white space. */
export type Bounds = readonly [start: number, end: number]

const FENCE = '```'
/** What follows the fence that opens a block: the name of a language, and a line break. */
const FENCE_LINE = /[a-zA-Z]{0,40}[^\S\n]{0,200}\n/y
/** How far a fence may be indented. */
const MAX_INDENT = 8

const THOUGHTS = '<think>'
const THOUGHTS_END = '</think>'

/** The whole text without leading thoughts and without a surrounding fence. */
export function wholeJson(text: string): Bounds {
  return withoutFence(text, trimmedBounds(text, thoughtsEnd(text), text.length))
}

/**
 * Where else the JSON may be if the whole text is not JSON, most likely first: in the only fenced block within prose, or
 * after thoughts whose start the server's chat template produced, so that only their end is in the text.
 */
export function otherBounds(text: string): Bounds[] {
  const end = text.lastIndexOf(THOUGHTS_END)
  const behind = trimmedBounds(text, end === -1 ? text.length : end + THOUGHTS_END.length, text.length)
  const blocks = [onlyBlock(text, thoughtsEnd(text)), onlyBlock(text, behind[0]), withoutFence(text, behind)]
  return blocks.filter((bounds) => bounds !== null && bounds[0] < bounds[1]) as Bounds[]
}

function thoughtsEnd(text: string): number {
  const start = text.length - text.trimStart().length
  if (!text.startsWith(THOUGHTS, start)) return start
  const end = text.indexOf(THOUGHTS_END, start)
  return end === -1 ? start : end + THOUGHTS_END.length
}

function withoutFence(text: string, [start, end]: Bounds): Bounds {
  if (!text.startsWith(FENCE, start) || !text.endsWith(FENCE, end)) return [start, end]
  const inside = blockStart(text, start)
  return inside === null || inside > end - FENCE.length
    ? [start, end]
    : trimmedBounds(text, inside, end - FENCE.length)
}

/** The contents of the fenced block, if there is exactly one. A fence inside JSON never starts a line. */
function onlyBlock(text: string, from: number): Bounds | null {
  const fences: number[] = []
  for (let at = text.indexOf(FENCE, from); at !== -1; at = text.indexOf(FENCE, at + FENCE.length)) {
    if (beginsLine(text, at, from) && fences.push(at) > 2) return null
  }
  const [open, close = text.lastIndexOf(FENCE)] = fences
  if (open === undefined) return null
  const inside = blockStart(text, open)
  return inside === null || inside > close ? null : trimmedBounds(text, inside, close)
}

function blockStart(text: string, fence: number): number | null {
  FENCE_LINE.lastIndex = fence + FENCE.length
  return FENCE_LINE.test(text) ? FENCE_LINE.lastIndex : null
}

function beginsLine(text: string, at: number, from: number): boolean {
  for (let before = at - 1; before >= from && at - before <= MAX_INDENT + 1; before--) {
    const character = text.charAt(before)
    if (character === '\n') return true
    if (character !== ' ' && character !== '\t') return false
  }
  return at - from <= MAX_INDENT
}

function trimmedBounds(text: string, from: number, to: number): Bounds {
  const part = text.slice(from, to)
  const start = to - part.trimStart().length
  return [start, Math.max(start, from + part.trimEnd().length)]
}
